"""A device that waits for the CPU: it had done all that was queued, and more was yet to come."""

from collections.abc import Mapping
from dataclasses import replace

from traceml import units
from traceml.diagnosis.finding import INFO, STEP_TIME, WARNING, Diagnosis, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.straggler import INPUT, OTHER, lower_median
from traceml.diagnosis.verdict import Verdict, at_most, severity
from traceml.snapshot import HostUse, RankState, RankTimes, Statistics

LAUNCH_BOUND = "LAUNCH_BOUND"

_ACTION = (
    "Give the device more to do for each kernel that the CPU launches: a larger batch, "
    "torch.compile or CUDA graphs, fewer small kernels, no `.item()` in the loop."
)


def launch_bound(
    statistics: Statistics,
    policy: Policy,
    floor_seconds: float,
    busy: Mapping[int, float],
    confidence: str,
) -> Verdict:
    """How much of compute the typical rank's device idled; `busy` is what NVML tells, by rank.

    It is an upper bound: of a device that is done shortly before a phase ends, the whole phase
    may count. What it was busy in the same time, and what it idled elsewhere, caps it; where that
    is not known nobody is alarmed by it.
    """
    step = statistics.step
    idle = _idle_ratios(statistics, busy) if statistics.clock == "device" else []
    if not idle or step is None:
        return Verdict(LAUNCH_BOUND)
    seconds = lower_median(idle) * step.median
    share = seconds / step.median if seconds >= floor_seconds else 0.0
    score = share / policy.launch_warning
    if score < 1:
        return Verdict(LAUNCH_BOUND, score)
    evidence = {"idle_seconds": seconds, "share_ratio": share}
    if busy:
        evidence["gpu_utilization_ratio"] = lower_median(list(busy.values()))
    finding = Finding(
        STEP_TIME, LAUNCH_BOUND, severity(share, policy.launch_warning, policy.launch_critical),
        _summary(seconds, step.median), _ACTION, lost_seconds_per_step=seconds, chronic=True,
        confidence=confidence, evidence=evidence,
    )  # fmt: skip
    if not busy:
        finding = replace(at_most(finding, WARNING), confidence="low")
    return Verdict(LAUNCH_BOUND, score, finding, share)


def busy_ratios(ranks: tuple[RankState, ...], host: HostUse) -> dict[int, float]:
    """By rank, how much of the time its GPU was busy, where NVML tells."""
    use = {gpu.uuid: gpu.utilization_ratio for gpu in host.gpus}
    known = ((rank.rank, use.get(rank.gpu_uuid)) for rank in ranks if rank.gpu_uuid)
    return {rank: ratio for rank, ratio in known if ratio is not None}


def explanation(steps: Diagnosis) -> Finding | None:
    """What of the steps' findings says why a GPU has little to do."""
    for finding in steps.findings:
        if finding.state == LAUNCH_BOUND:
            return finding
    return steps.primary if steps.primary.severity != INFO else None


def _idle_ratios(statistics: Statistics, busy: Mapping[int, float]) -> list[float]:
    """Of the typical step, by rank."""
    typical = statistics.step.median if statistics.step else 0.0
    return [
        min(times.idle_seconds / typical, _idle_at_most(times, busy.get(rank)))
        for rank, times in statistics.ranks.items()
        if times.idle_seconds is not None
    ]


def _idle_at_most(times: RankTimes, busy_ratio: float | None) -> float:
    """What is left of a step beside the GPU's work and the phases in which it has none."""
    if busy_ratio is None:
        return 1.0
    elsewhere = sum(times.phases.get(phase, 0.0) for phase in (*INPUT, *OTHER))
    return max(1.0 - busy_ratio - elsewhere / times.step_seconds, 0.0)


def _summary(seconds: float, step_seconds: float) -> str:
    return (
        "In forward, backward and optimizer the device had done all that was queued, and waited "
        f"for the CPU for up to {units.seconds(seconds)} of a step of "
        f"{units.seconds(step_seconds)}: {units.ratio(seconds / step_seconds)} of it."
    )

"""Step time: the rules in the order of their table."""

from collections.abc import Iterator
from dataclasses import replace

from traceml import units
from traceml.diagnosis.bound import Shares
from traceml.diagnosis.finding import INFO, STEP_TIME, WARNING, Diagnosis, Finding
from traceml.diagnosis.gpu import cause
from traceml.diagnosis.launch import busy_ratios, launch_bound
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.stall import stalled
from traceml.diagnosis.straggler import Judge, lower_median
from traceml.diagnosis.verdict import Verdict, at_most, at_most_medium, conclude
from traceml.snapshot import HostUse, Snapshot, Statistics

MIN_STEPS = 2


def step_time(
    snapshot: Snapshot, statistics: Statistics, host: HostUse, policy: Policy
) -> Diagnosis:
    """What holds back the steps of this scope."""
    if statistics.steps < MIN_STEPS or statistics.step is None or not statistics.step.median:
        return conclude(STEP_TIME, [stalled(snapshot, policy)], _no_data(snapshot, statistics))
    verdicts = [stalled(snapshot, policy), *_rules(snapshot, statistics, host, policy)]
    if statistics.steps < policy.sure_steps:
        verdicts = [verdicts[0], *(_unsure(verdict) for verdict in verdicts[1:])]
    return conclude(STEP_TIME, verdicts, _balanced(statistics))


def _rules(
    snapshot: Snapshot, statistics: Statistics, host: HostUse, policy: Policy
) -> Iterator[Verdict]:
    assert statistics.step is not None
    step_seconds = statistics.step.median
    floor = policy.floor(snapshot.telemetry.overhead_seconds_per_step)
    is_exact = statistics.clock == "device" or snapshot.run.device in ("cpu", "mps", "")
    confidence = _confidence(statistics, policy, is_exact)
    is_busy = (host.cpu_utilization_ratio or 0.0) >= policy.contended_cpu
    world = snapshot.run.world_size or 1
    sees_waits = _sees_waits(statistics, world)
    judge = Judge(
        statistics, policy, floor, step_seconds,
        lambda rank: cause(rank, snapshot.ranks, host, policy),
        is_busy and snapshot.run.device == "cpu", sees_waits,
        confidence if sees_waits else at_most_medium(confidence),
    )  # fmt: skip
    shares = Shares(
        statistics, policy, floor, step_seconds, world == len(statistics.ranks), sees_waits,
        is_exact, judge.is_contended, judge.is_contended and _is_crowded(snapshot, policy),
        confidence,
    )  # fmt: skip
    busy = busy_ratios(snapshot.ranks, host)
    launch = launch_bound(statistics, policy, floor, busy, confidence)
    causes = [*judge.verdicts(), *shares.verdicts(), launch]
    yield from causes
    found = any(verdict.finding and verdict.finding.severity != INFO for verdict in causes)
    jitter = shares.jitter()
    yield Verdict("JITTER") if found else jitter
    if not found and jitter.finding is None:
        yield shares.compute()
    else:
        yield replace(shares.compute(), finding=None)


def _sees_waits(statistics: Statistics, world: int) -> bool:
    """Whether each rank's waiting is told from its own work; one alone waits for nobody."""
    ranks = statistics.ranks.values()
    is_alone = max(world, len(ranks)) == 1
    return is_alone or all("collective_wait" in times.phases for times in ranks)


def _is_crowded(snapshot: Snapshot, policy: Policy) -> bool:
    """Whether ranks compute and get too little CPU for it; those that sleep want none."""
    cores = [rank.cpu_cores for rank in snapshot.ranks if rank.cpu_cores is not None]
    return sum(cores) >= 1 and lower_median(cores) < policy.crowded_cores


def _no_data(snapshot: Snapshot, statistics: Statistics) -> Finding:
    left_out = sum(snapshot.steps.excluded.values())
    summary = (
        f"Of {snapshot.steps.completed} completed steps {left_out} are left out, as evaluations, "
        f"checkpoints and the like are; {statistics.steps} can be judged, and {MIN_STEPS} are "
        "needed."
    )
    action = "Wait for more steps." if snapshot.run.state == "running" else ""
    return Finding(STEP_TIME, "NO_DATA", INFO, summary, action)


def _confidence(statistics: Statistics, policy: Policy, is_exact: bool) -> str:
    if not is_exact or statistics.clock == "mixed":
        return "low"
    return "medium" if statistics.steps < policy.sure_steps else "high"


def _unsure(verdict: Verdict) -> Verdict:
    if verdict.finding is None:
        return verdict
    return replace(verdict, finding=at_most(verdict.finding, WARNING))


def _balanced(statistics: Statistics) -> Finding:
    assert statistics.step is not None
    shares = {phase: of.share_ratio or 0.0 for phase, of in statistics.phases.items()}
    largest = max(shares, key=shares.__getitem__, default=None)
    most = f", most of it {largest} ({units.ratio(shares[largest])})" if largest else ""
    summary = (
        f"Nothing stands out: a step takes {units.seconds(statistics.step.median)}{most}, and no "
        "rank holds back the others."
    )
    return Finding(STEP_TIME, "BALANCED", INFO, summary, phase=largest)

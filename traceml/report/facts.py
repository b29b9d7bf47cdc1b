"""What is said of a run in words, the same in every form of its summary."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TypeVar

from traceml import units
from traceml.diagnosis.finding import INFO, title
from traceml.report import document
from traceml.report.document import Finding, Gpu, Summary
from traceml.snapshot import PhaseSpread, RankTimes, Spread, Statistics

Value = TypeVar("Value")

_PLAIN = ("NO_DATA", "NORMAL", "BALANCED", "COMPUTE_BOUND")  # nothing to add to the first finding
_GPU_ERRORS = {
    "ecc_corrected": "memory errors corrected",
    "ecc_uncorrected": "memory errors not corrected",
    "xid": "Xids",
}
_STOOD_SECONDS = 5.0  # a run without a step for so long stood still when it was interrupted
_TELLING = 0.01  # of a step: less idleness is not worth a line


def whole_run(summary: Summary) -> Statistics:
    """The figures of the phase table, as the summary tells them."""
    times = summary.step_time
    return Statistics(
        steps=judged(summary),
        step=None if times.step is None else _spread(times.step),
        phases={
            phase: PhaseSpread(_spread(of), of.share_ratio) for phase, of in times.phases.items()
        },
        ranks={
            rank.rank: RankTimes(rank.step_seconds, rank.own_seconds, rank.phases)
            for rank in summary.ranks
            if rank.step_seconds is not None
        },
        lengths=None,
        on_device_ratio=0.0,
        memory_peaks={},
        memory={},
        allocation_retries={},
    )


def _spread(of: document.TimeSpread | document.PhaseSpread) -> Spread:
    return Spread(of.median_seconds, of.worst_seconds, of.worst_rank, of.skew_ratio)


def judged(summary: Summary) -> int:
    """How many steps are in the figures."""
    steps = summary.step_time.steps
    return max(steps.completed - sum(steps.excluded.values()), 0)


def ending(summary: Summary) -> str:
    """How the run ended, and when."""
    run = summary.run
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    return f"{run.status}{code}  after {units.seconds(run.duration_seconds)}"


def setting(summary: Summary) -> str:
    """What ran, and on what."""
    run = summary.run
    if run.world_size is None:
        return "No rank has reported"
    ranks = _count(run.world_size, "rank")
    if run.nnodes is not None and run.nnodes > 1:
        ranks = f"this node's {len(summary.ranks)} of {ranks}"
    return f"{ranks} ({run.strategy}) on {run.device}, torch {run.torch}, python {run.python}"


def counted(summary: Summary) -> str:
    """What became of the steps."""
    steps = summary.step_time.steps
    left_out = ", ".join(f"{count} {tag}" for tag, count in steps.excluded.items() if count)
    parts = [f"{_count(steps.completed, 'step')} completed, {judged(summary)} in the figures below"]
    if left_out:
        parts.append(f"left out: {left_out}")
    if steps.incomplete:
        parts.append(f"{steps.incomplete} incomplete")
    return "; ".join(parts)


def headline(finding: Finding) -> str:
    """A finding's name, how grave and how sure it is, and where."""
    passing = ", passing" if finding.chronic is False else ""
    unsure = f", {finding.confidence} confidence" if finding.confidence != "high" else ""
    what = f"{title(finding.state)} ({finding.severity}{passing}{unsure})"
    return f"{what}  {where(finding.rank, finding.phase)}".rstrip()


def where(rank: int | None, phase: str | None) -> str:
    """The rank and phase to blame, as far as there are."""
    named = "" if rank is None else f"rank {rank}"
    return ", ".join(part for part in (named, phase) if part)


def others(summary: Summary) -> Iterator[tuple[Finding, str]]:
    """All findings but the first that say something, with what to do if they alarm."""
    sections = (summary.step_time, summary.step_memory, summary.system, summary.process)
    for section in sections:
        for finding in section.findings:
            if finding != summary.primary_diagnosis and finding.state not in _PLAIN:
                yield finding, (finding.action or "") if finding.severity != INFO else ""


def lengths(summary: Summary) -> Iterator[str]:
    """How long steps took."""
    quantiles = summary.step_time.step_quantiles_seconds
    if quantiles:
        spans = (f"{name} {units.seconds(value)}" for name, value in quantiles.items())
        yield f"Steps {', '.join(spans)}"


def waiting(summary: Summary) -> Iterator[str]:
    """Where the median rank waits for the others, and what its device waits for the CPU."""
    waits = [rank.wait_seconds_by_place for rank in summary.ranks if rank.wait_seconds_by_place]
    if waits:
        typical = _lower_median(waits, key=lambda of: sum(of.values()))
        places = [f"{units.seconds(of)} in {place}" for place, of in typical.items() if of]
        if places:
            yield f"Waiting for other ranks: {', '.join(places)} a step on the median rank"
    idle = [rank.device_idle_ratio for rank in summary.ranks if rank.device_idle_ratio is not None]
    typical_idle = _lower_median(idle, key=float) if idle else 0.0
    if typical_idle >= _TELLING:
        share = units.ratio(typical_idle)
        yield f"Device waiting for the CPU: up to {share} of the step on the median rank"


def _lower_median(values: Sequence[Value], key: Callable[[Value], float]) -> Value:
    return sorted(values, key=key)[(len(values) - 1) // 2]


def memory(summary: Summary) -> Iterator[str]:
    """The peaks of each kind."""
    for kind, peak in (summary.step_memory.peaks or {}).items():
        name = "resident" if kind == "rss" else kind
        worst = f"{units.bytes_(peak.worst_bytes)} on r{peak.worst_rank}"
        median = f", median {units.bytes_(peak.median_bytes)}" if len(summary.ranks) > 1 else ""
        yield f"Peak {name} memory {worst}{median}"


def system(summary: Summary) -> Iterator[str]:
    """The machine and its GPUs."""
    host = summary.system
    size = units.bytes_(host.host_memory_size_bytes)
    parts = {
        f"CPU {units.ratio(host.host_cpu_utilization_ratio)} busy": host.host_cpu_utilization_ratio,
        f"memory up to {units.ratio(host.host_memory_peak_ratio)} of {size}": (
            host.host_memory_peak_ratio
        ),
    }
    known = [text for text, value in parts.items() if value is not None]
    if known:
        yield f"Host {', '.join(known)}"
    alike: dict[str, list[str]] = {}
    for gpu in host.gpus:
        alike.setdefault(", ".join(_gpu(gpu)), []).append(str(gpu.gpu))
    yield from (f"GPU {', '.join(gpus)}: {use}" for use, gpus in alike.items() if use)


def _gpu(gpu: Gpu) -> Iterator[str]:
    if gpu.utilization_ratio is not None:
        yield f"{units.ratio(gpu.utilization_ratio)} busy"
    if gpu.memory_peak_ratio is not None:
        yield f"memory up to {units.ratio(gpu.memory_peak_ratio)}"
    if gpu.temperature_peak_celsius is not None:
        yield f"up to {gpu.temperature_peak_celsius:.0f} C"
    if gpu.power_ratio is not None:
        yield f"power {units.ratio(gpu.power_ratio)} of its limit"
    if gpu.sm_clock_hertz is not None and gpu.sm_clock_max_hertz:
        yield f"SM clock at {units.ratio(gpu.sm_clock_hertz / gpu.sm_clock_max_hertz)}"
    if gpu.throttled:
        reasons = ", ".join(gpu.throttled)
        yield f"clocks held back {units.ratio(gpu.throttled_ratio)} of the time ({reasons})"
    for kind, name in _GPU_ERRORS.items():
        count = (gpu.errors or {}).get(kind)
        if count:
            yield f"{name}: {count}"


def process(summary: Summary) -> Iterator[str]:
    """What the ranks' processes use."""
    of, several = summary.process, len(summary.ranks) > 1
    parts = []
    if of.cpu_cores is not None:
        most = f" (most {of.cpu_cores.worst:.2g} on r{of.cpu_cores.worst_rank})" if several else ""
        parts.append(f"{of.cpu_cores.median:.2g} cores{most}")
    if of.resident is not None:
        worst = f"{units.bytes_(of.resident.worst_bytes)} on r{of.resident.worst_rank}"
        most = f" (most {worst})" if several else ""
        parts.append(f"{units.bytes_(of.resident.median_bytes)} resident{most}")
    if parts:
        yield f"Process {', '.join(parts)}, when last heard of"


def stragglers(summary: Summary) -> Iterator[str]:
    """What the run has cost for ranks that others waited for."""
    total = sum(rank.lost_seconds for rank in summary.ranks)
    if not total:
        return
    most = max(summary.ranks, key=lambda rank: rank.lost_seconds)
    phases = most.lost_seconds_by_phase or {}
    phase = f", most in {max(phases, key=phases.__getitem__)}" if phases else ""
    yield (
        f"Waited for stragglers: {units.seconds(total)} in all, "
        f"{units.seconds(most.lost_seconds)} of it for r{most.rank}{phase}"
    )


FIGURES = (lengths, waiting, memory, system, process, stragglers)  # in this order


def telemetry(summary: Summary) -> str:
    """What tracing has cost and lost."""
    of = summary.telemetry
    cost = units.seconds(of.overhead_seconds_per_step)
    lost = f"{_count(of.records_dropped, 'record')} lost"
    reasons = of.records_dropped_by_reason or {}
    if reasons:
        lost += f" ({', '.join(f'{count} {why}' for why, count in reasons.items())})"
    restarts = of.sidecar_restarts
    again = f", its sidecar restarted {_count(restarts, 'time')}" if restarts else ""
    return f"TraceML itself: {cost} a step on the training thread, {lost}{again}"


def remarks(summary: Summary) -> Iterator[str]:
    """Whom it was last heard of, what could not be measured, and how much of the run this is."""
    yield from _left_behind(summary)
    yield from (f"Note: {note}" for note in summary.notes)
    yield from _covers(summary)


def _left_behind(summary: Summary) -> Iterator[str]:
    """Where ranks were last seen that did not say goodbye."""
    silent = {absent.rank for absent in summary.absent_ranks}
    was_interrupted = summary.run.status == "interrupted"
    cut_off = was_interrupted or summary.run.status == "failed"
    idle = _idle_seconds(summary)
    stood = was_interrupted and idle >= _STOOD_SECONDS
    gone = [
        rank
        for rank in summary.ranks
        if rank.rank in silent or (cut_off and not rank.left_in_good_order) or stood
    ]
    seen = [f"r{of.rank} in step {of.last_step}, {of.last_phase or 'starting'}" for of in gone]
    if seen:
        when = "When it was interrupted" if was_interrupted else "Last heard of"
        after = f", {units.seconds(idle)} after the last step" if stood else ""
        yield f"{when}{after}: {'; '.join(seen)}"
    never = [f"r{absent.rank}" for absent in summary.absent_ranks if absent.last_step is None]
    if never:
        yield f"Never heard of: {', '.join(never)}"


def _idle_seconds(summary: Summary) -> float:
    last = summary.step_time.last_completed_after_seconds
    return 0.0 if last is None else summary.run.duration_seconds - last


def _covers(summary: Summary) -> Iterator[str]:
    """How much of the run this tells, where it was rebuilt from the journal."""
    coverage = summary.coverage
    if coverage is None:
        return
    if coverage.whole:
        yield "Rebuilt from the journal: covers the whole run."
        return
    parts = [f"Rebuilt from the journal: covers the run up to {moment(coverage.until)}"]
    if coverage.unread_bytes and not coverage.problems:
        parts.append(f"{coverage.unread_bytes} bytes could not be read")
    yield "; ".join((*parts, *coverage.problems)) + "."


def moment(iso: str) -> str:
    """A time as people write it; as it stands, if it is none."""
    try:
        at = datetime.fromisoformat(iso).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return iso
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

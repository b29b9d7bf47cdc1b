"""A summary of TraceML's own as a `Side`."""

from collections.abc import Iterator, Mapping, Sequence

from traceml.report.compare.side import Diagnosed, Reading, Series, Side, Worst
from traceml.report.document import Part, Rank, StepMemory, StepTime, Summary

TOOL = "traceml"
_LOST_RATIO = 0.01  # of the records: from here on the figures are of other steps than there were
_STATUSES = {
    "running": "the run goes on",
    "failed": "the run has failed",
    "interrupted": "the run was interrupted",
}
_MEMORY = ("allocated", "reserved", "rss")


def read_ours(summary: Summary) -> Side:
    """The run that the summary tells of."""
    times, ranks, system = summary.step_time, summary.ranks, summary.system
    found = summary.primary_diagnosis
    parts = () if times.distribution is None else times.distribution.parts
    use = [gpu.utilization_ratio for gpu in system.gpus if gpu.utilization_ratio is not None]
    return Side(
        name=summary.run.name,
        tool=TOOL,
        steps=_steps(times, parts),
        step=None
        if times.step is None
        else Reading(times.step.median_seconds, _series(parts, [each.seconds for each in parts])),
        phases={
            phase: Reading(
                of.median_seconds, _series(parts, [each.phases.get(phase) for each in parts])
            )
            for phase, of in times.phases.items()
        },
        worst={phase: Worst(of.worst_seconds, of.worst_rank) for phase, of in times.phases.items()},
        diagnosis=Diagnosed(found.state, found.severity, found.rank, found.phase),
        memory=dict(_memory(summary.step_memory)),
        skew=_skew(ranks),
        gpu_utilization=sum(use) / len(use) if use else None,
        host_cpu=system.host_cpu_utilization_ratio,
        samples=_samples(ranks),
        environment=dict(_environment(summary)),
        doubts=tuple(_doubts(summary)),
        id=summary.run.id,
    )


def _steps(times: StepTime, parts: Sequence[Part]) -> int:
    if parts:
        return sum(part.steps for part in parts)
    return max(times.steps.completed - sum(times.steps.excluded.values()), 0)


def _series(parts: Sequence[Part], figures: Sequence[float | None]) -> Series | None:
    """A figure of the parts, as far as they have it."""
    told = zip(figures, (part.steps for part in parts), strict=True)
    known = [(value, steps) for value, steps in told if value is not None and steps]
    if not known:
        return None
    values, steps = zip(*known, strict=True)
    return Series(values, steps)


def _memory(memory: StepMemory) -> Iterator[tuple[str, float]]:
    peaks = {} if memory.peak is None else {memory.kind: memory.peak}
    peaks.update(memory.peaks or {})
    yield from ((kind, peaks[kind].worst_bytes) for kind in _MEMORY if kind in peaks)


def _skew(ranks: Sequence[Rank]) -> Worst | None:
    own = sorted((rank.own_seconds, rank.rank) for rank in ranks if rank.own_seconds)
    if len(own) < 2:
        return None
    typical, (most, whose) = own[(len(own) - 1) // 2][0], own[-1]
    return Worst(most / typical - 1, whose)


def _samples(ranks: Sequence[Rank]) -> float | None:
    sizes = sorted(rank.samples / rank.steps for rank in ranks if rank.samples and rank.steps)
    return sizes[(len(sizes) - 1) // 2] if sizes else None


def _environment(summary: Summary) -> Iterator[tuple[str, str]]:
    run, ranks, size = summary.run, summary.ranks, summary.system.host_memory_size_bytes
    facts: Mapping[str, str | int | None] = {
        "machine": ", ".join(sorted({rank.host for rank in ranks if rank.host})),
        "machine's memory": None if size is None else f"{size / 2**30:.0f} GiB",
        "device": run.device,
        "clock": summary.step_time.clock,
        "world size": run.world_size,
        "nodes": run.nnodes,
        "strategy": run.strategy,
        "model": ", ".join(sorted({rank.group for rank in ranks if rank.group})),
        "torch": run.torch,
        "python": run.python,
        "traceml": run.traceml,
    }
    yield from ((name, str(fact)) for name, fact in facts.items() if fact not in (None, ""))


def _doubts(summary: Summary) -> Iterator[str]:
    status, telemetry = summary.run.status, summary.telemetry
    if status != "completed":
        yield _STATUSES[status]
    lost = telemetry.records_dropped
    if lost > _LOST_RATIO * telemetry.records_received:
        yield f"{lost:.0f} records of it were lost"
    if summary.coverage is not None and not summary.coverage.whole:
        yield "its summary covers a part of it only"

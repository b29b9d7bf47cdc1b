"""From the last Snapshot of a run to its summary."""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from traceml import __version__, snapshot
from traceml.diagnosis import finding
from traceml.report import document as doc
from traceml.report.document import SCHEMA_VERSION
from traceml.report.typed import plain
from traceml.snapshot import RankState, Snapshot, Spread

__all__ = ["JSON_NAME", "SCHEMA_VERSION", "summarized", "summary"]

JSON_NAME = "final_summary.json"


def summary(of: Snapshot) -> dict[str, Any]:
    """The summary as a document; what was not measured is left out."""
    found: dict[str, Any] = plain(summarized(of))
    return found


def summarized(of: Snapshot) -> doc.Summary:
    """What is kept of the run."""
    diagnoses = of.whole_diagnoses
    return doc.Summary(
        schema_version=SCHEMA_VERSION,
        run=_run(of.run),
        primary_diagnosis=_finding(finding.primary(diagnoses)),
        step_time=_step_time(of),
        step_memory=_step_memory(of),
        system=_system(of),
        process=doc.Process(
            **_section(diagnoses["process"]),
            cpu_cores=_cores(of.processes.get("cpu_cores")),
            resident=_memory(of.processes.get("resident_bytes")),
        ),
        ranks=tuple(_rank(of, rank) for rank in of.ranks),
        telemetry=_telemetry(of.telemetry),
        absent_ranks=tuple(_absent(absence) for absence in of.absent),
        notes=of.notes,
        coverage=_coverage(of.coverage),
    )


def _run(run: snapshot.Run) -> doc.Run:
    return doc.Run(
        name=run.name,
        id=run.id,
        status=_as_is(run.state),
        exit_code=run.exit_code,
        started_at=_iso(run.started_at),
        duration_seconds=max(run.duration_seconds, 0.0),  # a clock may be set back
        world_size=run.world_size,
        nnodes=run.nnodes,
        strategy=run.strategy or None,
        device=run.device or None,
        torch=run.torch or None,
        python=run.python or None,
        traceml=__version__,
        command=run.command,
    )


def _finding(of: finding.Finding) -> doc.Finding:
    return doc.Finding(
        domain=_as_is(of.domain),
        state=of.state,
        severity=_as_is(of.severity),
        rank=of.rank,
        phase=of.phase,
        summary=of.summary,
        action=of.action or None,
        lost_seconds_per_step=of.lost_seconds_per_step,
        chronic=of.chronic,
        confidence=_as_is(of.confidence),
        evidence=dict(of.evidence or {}),
    )


def _section(diagnosis: finding.Diagnosis) -> dict[str, Any]:
    return {
        "diagnosis": _finding(diagnosis.primary),
        "findings": tuple(_finding(each) for each in diagnosis.findings),
    }


def _step_time(of: Snapshot) -> doc.StepTime:
    steps, whole = of.steps, of.whole
    return doc.StepTime(
        **_section(of.whole_diagnoses["step_time"]),
        clock=_as_is(whole.clock),
        steps=doc.Steps(
            completed=steps.completed,
            incomplete=sum(steps.incomplete.values()),
            excluded={tag: count for tag, count in steps.excluded.items() if count},
        ),
        step=_time(whole.step),
        phases={phase: _phase(spread) for phase, spread in whole.phases.items()},
        step_quantiles_seconds=dict(steps.quantiles_seconds),
        distribution=_distribution(of),
        timeline=tuple(_turn(of, turn) for turn in of.turns),
        last_completed_after_seconds=_after(of, steps.last_completed_at),
    )


def _distribution(of: Snapshot) -> doc.Distribution | None:
    if not of.steps.parts:
        return None
    return doc.Distribution(
        bounds_seconds=tuple(map(_brief, of.steps.lengths.bounds_seconds)),
        counts=of.steps.lengths.counts,
        parts=tuple(_part(of, part) for part in of.steps.parts),
    )


def _part(of: Snapshot, part: snapshot.Part) -> doc.Part:
    return doc.Part(
        steps=part.steps,
        seconds=_brief(part.seconds),
        longest_seconds=_brief(part.longest_seconds),
        excluded=part.excluded,
        ended_after_seconds=round(_after(of, part.ended_at) or 0.0, 3),
        phases={phase: _brief(seconds) for phase, seconds in part.phases.items()},
        memory_median_bytes=_whole(part.memory_median_bytes),
        memory_worst_bytes=_whole(part.memory_worst_bytes),
    )


def _turn(of: Snapshot, turn: snapshot.Turn) -> doc.Turn:
    return doc.Turn(
        after_seconds=round(_after(of, turn.at) or 0.0, 3),
        state=turn.state,
        severity=_as_is(turn.severity),
        rank=turn.rank,
        phase=turn.phase,
    )


def _step_memory(of: Snapshot) -> doc.StepMemory:
    memory = of.whole.memory
    kind = "allocated" if "allocated" in memory else "rss"
    return doc.StepMemory(
        **_section(of.whole_diagnoses["step_memory"]),
        kind=kind,
        peak=_memory(memory.get(kind)),
        peaks={
            kind: spread for kind, over in memory.items() if (spread := _memory(over)) is not None
        },
    )


def _system(of: Snapshot) -> doc.System:
    host, use = of.host, of.host_whole
    return doc.System(
        **_section(of.whole_diagnoses["system"]),
        host_memory_size_bytes=None if host is None else host.memory_size_bytes,
        host_memory_peak_ratio=use.memory_ratio,
        host_cpu_utilization_ratio=use.cpu_utilization_ratio,
        gpus=tuple(_gpu(gpu) for gpu in use.gpus),
    )


def _gpu(gpu: snapshot.GpuUse) -> doc.Gpu:
    return doc.Gpu(
        gpu=gpu.index,
        uuid=gpu.uuid,
        utilization_ratio=gpu.utilization_ratio,
        memory_peak_ratio=gpu.memory_ratio,
        temperature_peak_celsius=gpu.temperature_celsius,
        power_ratio=gpu.power_ratio,
        throttled_ratio=gpu.throttled_ratio,
        throttled=gpu.throttled,
        sm_clock_hertz=gpu.sm_clock_hertz,
        sm_clock_max_hertz=gpu.sm_clock_max_hertz,
        power_watts=gpu.power_watts,
        errors=gpu.errors or None,
    )


def _rank(of: Snapshot, rank: RankState) -> doc.Rank:
    times = of.whole.ranks.get(rank.rank)
    return doc.Rank(
        rank=rank.rank,
        node=rank.node_rank,
        local_rank=rank.local_rank,
        device=rank.device,
        steps=rank.steps,
        phases=dict(times.phases) if times else {},
        memory=_rank_memory(of.whole.memory_peaks, rank),
        process=doc.RankProcess(rank.cpu_seconds, rank.cpu_cores, rank.resident_bytes),
        lost_seconds=rank.all_lost_seconds,
        lost_seconds_by_phase={p: seconds for p, seconds in rank.lost_seconds.items() if seconds},
        step_seconds=times.step_seconds if times else None,
        own_seconds=times.own_seconds if times else None,
        wait_seconds_by_place=dict(times.wait_seconds) or None if times else None,
        device_idle_ratio=times.idle_ratio if times else None,
        host=rank.host or None,
        gpu_uuid=rank.gpu_uuid or None,
        group=rank.group or None,
        samples=rank.samples,
        left_in_good_order=rank.parted,
        last_step=rank.step,
        last_phase=rank.phase or None,
    )


def _rank_memory(peaks: Mapping[str, Mapping[int, float]], rank: RankState) -> doc.RankMemory:
    allocated, reserved, rss = (
        peaks.get(kind, {}).get(rank.rank) for kind in ("allocated", "reserved", "rss")
    )
    return doc.RankMemory(allocated, reserved, rss, rank.memory_limit_bytes)


def _telemetry(of: snapshot.Telemetry) -> doc.Telemetry:
    return doc.Telemetry(
        overhead_seconds_per_step=of.overhead_seconds_per_step,
        records_received=of.records_received,
        records_dropped=sum(of.records_dropped.values()),
        sidecar_restarts=of.sidecar_restarts,
        records_dropped_by_reason=dict(of.records_dropped),
        records_unjournaled=of.records_unjournaled,
        requests_refused=sum(of.requests_refused.values()),
        otlp=None if of.exports is None else doc.Otlp(of.exports.sent, of.exports.lost),
    )


def _absent(absence: snapshot.Absence) -> doc.AbsentRank:
    return doc.AbsentRank(
        rank=absence.rank,
        last_step=absence.step,
        last_phase=absence.phase or None,
        silent_seconds=absence.silent_seconds,
    )


def _coverage(of: snapshot.Coverage | None) -> doc.Coverage | None:
    if of is None:
        return None
    return doc.Coverage(_iso(of.until), of.whole, of.unread_bytes, of.problems)


def _time(spread: Spread | None) -> doc.TimeSpread | None:
    return None if spread is None else doc.TimeSpread(*_figures(spread))


def _memory(spread: Spread | None) -> doc.MemorySpread | None:
    return None if spread is None else doc.MemorySpread(*_figures(spread))


def _cores(spread: Spread | None) -> doc.CoreSpread | None:
    return None if spread is None else doc.CoreSpread(*_figures(spread))


def _phase(of: snapshot.PhaseSpread) -> doc.PhaseSpread:
    return doc.PhaseSpread(*_figures(of.spread), of.share_ratio)


def _figures(spread: Spread) -> tuple[float, float, int, float | None]:
    return spread.median, spread.worst, spread.worst_rank, spread.skew_ratio


def _after(of: Snapshot, at: float | None) -> float | None:
    """So long after the start of the run."""
    return None if at is None else max(at - of.run.started_at, 0.0)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")


def _brief(value: float) -> float:
    """Six digits: a file of hundreds of parts should not be mostly noise."""
    return float(f"{value:.6g}")


def _whole(value: float | None) -> float | None:
    return None if value is None else round(value)


def _as_is(word: str) -> Any:
    """A word that stands in the Snapshot as text, and is one of those the document lists."""
    return word

"""`final_summary.json` and `.txt`: what is kept of a run."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from traceml import __version__
from traceml.diagnosis.finding import Diagnosis, Finding, primary
from traceml.files import write_atomically
from traceml.report.text import summary_text
from traceml.snapshot import (
    Absence,
    Coverage,
    Exports,
    GpuUse,
    RankState,
    Run,
    Snapshot,
    Spread,
    Telemetry,
)

SCHEMA_VERSION = 1
JSON_NAME = "final_summary.json"
TEXT_NAME = "final_summary.txt"


def write_summary(snapshot: Snapshot, directory: Path) -> None:
    """Write both files, each in one go; make the folder again if somebody took it away."""
    directory.mkdir(parents=True, exist_ok=True)
    document = json.dumps(summary(snapshot), indent=2)
    write_atomically(directory / JSON_NAME, document + "\n")
    write_atomically(directory / TEXT_NAME, summary_text(snapshot))


def summary(snapshot: Snapshot) -> dict[str, Any]:
    """The summary as a document; what was not measured is left out."""
    diagnoses = snapshot.whole_diagnoses
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": _run(snapshot.run),
        "primary_diagnosis": _finding(primary(diagnoses)),
        "step_time": {**_section(diagnoses["step_time"]), **_step_time(snapshot)},
        "step_memory": {**_section(diagnoses["step_memory"]), **_step_memory(snapshot)},
        "system": {**_section(diagnoses["system"]), **_system(snapshot)},
        "process": _section(diagnoses["process"]),
        "ranks": [_rank(snapshot, rank) for rank in snapshot.ranks],
        "absent_ranks": [_absence(absence) for absence in snapshot.absent],
        "telemetry": _telemetry(snapshot.telemetry),
        "notes": list(snapshot.notes),
        "coverage": _coverage(snapshot.coverage),
    }
    cleaned: dict[str, Any] = _without_none(document)
    return cleaned


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "id": run.id,
        "status": run.state,
        "exit_code": run.exit_code,
        "started_at": _iso(run.started_at),
        "duration_seconds": run.duration_seconds,
        "world_size": run.world_size,
        "nnodes": run.nnodes,
        "strategy": run.strategy or None,
        "device": run.device or None,
        "torch": run.torch or None,
        "python": run.python or None,
        "traceml": __version__,
        "command": list(run.command),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "domain": finding.domain,
        "state": finding.state,
        "severity": finding.severity,
        "rank": finding.rank,
        "phase": finding.phase,
        "summary": finding.summary,
        "action": finding.action or None,
        "lost_seconds_per_step": finding.lost_seconds_per_step,
        "chronic": finding.chronic,
        "confidence": finding.confidence,
        "evidence": dict(finding.evidence or {}),
    }


def _section(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "diagnosis": _finding(diagnosis.primary),
        "findings": [_finding(finding) for finding in diagnosis.findings],
    }


def _step_time(snapshot: Snapshot) -> dict[str, Any]:
    steps, whole = snapshot.steps, snapshot.whole
    return {
        "clock": whole.clock,
        "steps": {
            "completed": steps.completed,
            "incomplete": sum(steps.incomplete.values()),
            "excluded": {tag: count for tag, count in steps.excluded.items() if count},
        },
        "step": _spread(whole.step, "_seconds"),
        "phases": {
            phase: {**(_spread(of.spread, "_seconds") or {}), "share_ratio": of.share_ratio}
            for phase, of in whole.phases.items()
        },
        "step_quantiles_seconds": dict(steps.quantiles_seconds),
    }


def _step_memory(snapshot: Snapshot) -> dict[str, Any]:
    memory = snapshot.whole.memory
    kind = "allocated" if "allocated" in memory else "rss"
    return {
        "kind": kind,
        "peak": _spread(memory.get(kind), "_bytes"),
        "peaks": {kind: _spread(spread, "_bytes") for kind, spread in memory.items()},
    }


def _system(snapshot: Snapshot) -> dict[str, Any]:
    host, use = snapshot.host, snapshot.host_whole
    return {
        "host_memory_size_bytes": None if host is None else host.memory_size_bytes,
        "host_memory_peak_ratio": use.memory_ratio,
        "host_cpu_utilization_ratio": use.cpu_utilization_ratio,
        "gpus": [_gpu(gpu) for gpu in use.gpus],
    }


def _gpu(gpu: GpuUse) -> dict[str, Any]:
    return {
        "gpu": gpu.index,
        "uuid": gpu.uuid,
        "utilization_ratio": gpu.utilization_ratio,
        "memory_peak_ratio": gpu.memory_ratio,
        "temperature_peak_celsius": gpu.temperature_celsius,
        "power_ratio": gpu.power_ratio,
        "throttled_ratio": gpu.throttled_ratio,
        "throttled": list(gpu.throttled),
    }


def _spread(spread: Spread | None, unit: str) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {
        f"median{unit}": spread.median,
        f"worst{unit}": spread.worst,
        "worst_rank": spread.worst_rank,
        "skew_ratio": spread.skew_ratio,
    }


def _rank(snapshot: Snapshot, rank: RankState) -> dict[str, Any]:
    times = snapshot.whole.ranks.get(rank.rank)
    return {
        "rank": rank.rank,
        "node": rank.node_rank,
        "local_rank": rank.local_rank,
        "device": rank.device,
        "steps": rank.steps,
        "step_seconds": times.step_seconds if times else None,
        "own_seconds": times.own_seconds if times else None,
        "phases": dict(times.phases) if times else {},
        "group": rank.group or None,
        "lost_seconds": rank.all_lost_seconds,
        "lost_seconds_by_phase": {p: s for p, s in rank.lost_seconds.items() if s},
        "memory": {
            **{
                f"{kind}_peak_bytes": peaks.get(rank.rank)
                for kind, peaks in snapshot.whole.memory_peaks.items()
            },
            "limit_bytes": rank.memory_limit_bytes,
        },
        "process": {"cpu_seconds": rank.cpu_seconds, "cpu_cores": rank.cpu_cores},
        "samples": rank.samples,
        "left_in_good_order": rank.parted,
        "last_step": rank.step,
        "last_phase": rank.phase or None,
    }


def _telemetry(telemetry: Telemetry) -> dict[str, Any]:
    return {
        "overhead_seconds_per_step": telemetry.overhead_seconds_per_step,
        "records_received": telemetry.records_received,
        "records_dropped": sum(telemetry.records_dropped.values()),
        "records_unjournaled": telemetry.records_unjournaled,
        "requests_refused": sum(telemetry.requests_refused.values()),
        "sidecar_restarts": telemetry.sidecar_restarts,
        "otlp": _exports(telemetry.exports),
    }


def _exports(exports: Exports | None) -> dict[str, Any] | None:
    return None if exports is None else {"sent": dict(exports.sent), "lost": dict(exports.lost)}


def _absence(absence: Absence) -> dict[str, Any]:
    return {
        "rank": absence.rank,
        "last_step": absence.step,
        "last_phase": absence.phase or None,
        "silent_seconds": absence.silent_seconds,
    }


def _coverage(coverage: Coverage | None) -> dict[str, Any] | None:
    if coverage is None:
        return None
    return {
        "until": _iso(coverage.until),
        "whole": coverage.whole,
        "unread_bytes": coverage.unread_bytes,
        "problems": list(coverage.problems),
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value

"""A `final_summary.json` of `traceml-ai`, schema 1.x, as far as it tells the same facts.

Its `backward` holds the waiting for other ranks, and it tells nothing of how steps vary.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traceml.report.compare.node import Node
from traceml.report.compare.side import Diagnosed, Reading, Side, Worst
from traceml.report.typed import ShapeError

TOOL = "traceml-ai"
_VERSION = 1
_MS = 1e-3
_STEP = "step_time_ms"
_PHASES = {
    "dataloader": "input_wait_ms",
    "h2d": "h2d_ms",
    "forward": "forward_ms",
    "backward": "backward_ms",
    "optimizer": "optimizer_ms",
    "other": "residual_ms",
}
_SEVERITIES = {"crit": "critical", "warn": "warning"}
_PHASE_NAMES = {"input": "dataloader"}


def read_peer(document: Any, fallback_name: str) -> Side:
    """The run that the document tells of; ShapeError if it tells of none."""
    root = Node(document)
    version = root.amount("schema_version")
    if version is None or int(version) != _VERSION:
        raise ShapeError(f"its schema_version is {version}, and only {_VERSION}.x is known here")
    if "step_time" not in root:
        raise ShapeError("it has no step_time")
    times, meta = root.node("step_time"), root.node("meta")
    ranks = dict(_ranks(times))
    step = _median(ranks, times, _STEP)
    return Side(
        name=meta.text("run_name") or fallback_name,
        tool=TOOL,
        steps=times.node("global").node("window").count("steps_analyzed") or 0,
        step=None if step is None else Reading(step * _MS),
        phases={
            phase: Reading(value * _MS)
            for phase, key in _PHASES.items()
            if (value := _median(ranks, times, key)) is not None
        },
        worst={
            phase: worst
            for phase, key in _PHASES.items()
            if (worst := _worst(ranks, key)) is not None
        },
        diagnosis=_diagnosis(root),
        memory=dict(_memory(root)),
        gpu_utilization=_percent(root, "gpu_util_percent"),
        host_cpu=_percent(root, "cpu_percent"),
        environment=dict(_environment(root)),
        doubts=tuple(_doubts(root)),
    )


def _ranks(section: Node) -> Iterator[tuple[int, Node]]:
    rows = section.node("groups").node("rows")
    for key in rows:
        rank = rows.node(key).node("identity").count("global_rank")
        if rank is not None:
            yield rank, rows.node(key).node("metrics")


def _median(ranks: Mapping[int, Node], section: Node, key: str) -> float | None:
    """The lower median over the ranks, a real rank's value; its own median where it lists none."""
    values = sorted(value for value in _values(ranks, key))
    if values:
        return values[(len(values) - 1) // 2]
    return section.node("global").node("median").node(key).amount("value")


def _values(ranks: Mapping[int, Node], key: str) -> Sequence[float]:
    told = (metrics.amount(key) for metrics in ranks.values())
    return [value for value in told if value is not None]


def _worst(ranks: Mapping[int, Node], key: str) -> Worst | None:
    told = ((metrics.amount(key), rank) for rank, metrics in ranks.items())
    known = [(value, rank) for value, rank in told if value is not None]
    if not known:
        return None
    value, rank = max(known)
    return Worst(value * _MS, rank)


def _diagnosis(root: Node) -> Diagnosed | None:
    found = root.node("primary_diagnosis")
    state, severity = found.text("kind"), found.text("severity")
    if state is None or severity is None:
        return None
    phase = found.node("evidence").text("phase")
    return Diagnosed(
        state,
        _SEVERITIES.get(severity, severity),
        phase=_PHASE_NAMES.get(phase, phase) if phase else None,
    )


def _memory(root: Node) -> Iterator[tuple[str, float]]:
    worst = root.node("step_memory").node("global").node("worst")
    for kind in ("allocated", "reserved"):
        peak = worst.node(f"peak_{kind}_bytes").amount("value")
        if peak is not None:
            yield kind, peak


def _percent(root: Node, key: str) -> float | None:
    value = root.node("system").node("global").node("average").amount(key)
    return None if value is None else value / 100


def _environment(root: Node) -> Iterator[tuple[str, str]]:
    rows = root.node("system").node("groups").node("rows")
    told = (rows.node(key).node("identity").text("hostname") for key in rows)
    hosts = sorted({host for host in told if host})
    meta, window = root.node("meta"), root.node("step_time").node("global").node("window")
    clock = window.text("diagnosis_clock")
    facts: Mapping[str, str | int | None] = {
        "machine": ", ".join(hosts) or None,
        "clock": {"gpu": "device"}.get(clock, clock) if clock else None,
        "world size": meta.count("world_size"),
        "nodes": meta.count("nodes_observed"),
    }
    yield from ((name, str(fact)) for name, fact in facts.items() if fact is not None)


def _doubts(root: Node) -> Iterator[str]:
    status = root.node("run_context").node("run").text("status")
    if status not in (None, "completed"):
        yield f"the run's status is {status}"

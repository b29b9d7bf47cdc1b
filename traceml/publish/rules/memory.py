"""Alerts on memory that runs short."""

from traceml.publish.rules.rule import Alert, Severity
from traceml.publish.rules.wording import RUNNING, each, first, held

_PEAKS = each(
    'sort_desc(max by (kind) (traceml_memory_peak_worst_bytes{$matching,kind=~"allocated|rss"}))',
    "{{ $each.Labels.kind }} {{ $each.Value | humanize1024 }}B",
)
_SCORE = (
    'Its score is {{ $value | printf "%.2f" }}, and 1 is tolerated. Highest peaks: ' + _PEAKS + "."
)
_FREE = "a smaller batch with accumulation, activation checkpointing, sharding."
_LEAK = (
    "look for what is kept from step to step: losses or outputs stored with their graph, growing "
    "lists and caches."
)


def _named(state: str) -> str:
    """The rank, where the sidecar blames one."""
    return first(
        f'traceml_diagnosis_info{{$matching,domain="step_memory",state="{state}",rank!=""}}',
        ", rank {{ .Labels.rank }}",
    )


def _pressure(severity: Severity, when: str, expr: str) -> Alert:
    return Alert(
        name="TraceMLMemoryPressure",
        severity=severity,
        when=when,
        expr=expr,
        hold="$soon",
        keep="$after_critical" if severity == "critical" else "$after",
        summary=f"Run {{{{ $labels.run }}}}{_named('HIGH_PRESSURE')}: memory is almost used up",
        description=f"{_SCORE} Next: {_FREE}",
    )


_CRITICAL_PRESSURE = (
    "max by ($run) (\n"
    '  traceml_diagnosis_score{domain="step_memory",state="HIGH_PRESSURE"} >= 1\n'
    '  and on ($sidecar) traceml_diagnosis_info{state="HIGH_PRESSURE",severity="critical"} == 1\n'
    f"  and on ($sidecar) {RUNNING}\n"
    ")"
)

# On a device each rank has its own limit; on CPU all ranks of a node share one. Only what the
# sidecar takes for growth is extrapolated: it knows a jump, or a cache that fills, from a leak.
_RUNS_OUT = (
    "max by ($run, rank) (\n"
    "  (\n"
    "    max by ($sidecar, rank) (\n"
    '      predict_linear(traceml_rank_memory_peak_bytes{kind="allocated"}[$memory_window], '
    "$horizon_seconds)\n"
    "    )\n"
    "    > max by ($sidecar, rank) (traceml_rank_memory_limit_bytes)\n"
    "    or\n"
    "    sum by ($sidecar) (\n"
    '      predict_linear(traceml_rank_memory_peak_bytes{kind="rss"}[$memory_window], '
    "$horizon_seconds)\n"
    '      unless on ($sidecar) traceml_rank_memory_peak_bytes{kind="allocated"}\n'
    "    )\n"
    "    > max by ($sidecar) (traceml_rank_memory_limit_bytes)\n"
    "  )\n"
    '  and on ($sidecar) traceml_diagnosis_score{state=~"MEMORY_CREEP|MEMORY_CREEP_EARLY"} >= 1\n'
    f"  and on ($sidecar) {RUNNING}\n"
    ")"
)

MEMORY: tuple[Alert, ...] = (
    _pressure(
        "critical",
        "HIGH PRESSURE is critical: the limit is all but reached, or allocations were retried",
        _CRITICAL_PRESSURE,
    ),
    _pressure(
        "warning",
        "HIGH PRESSURE holds: the worst peak is close to the limit",
        held("step_memory", "HIGH_PRESSURE"),
    ),
    Alert(
        name="TraceMLMemoryRunsOut",
        severity="critical",
        when="memory that creeps will be above its limit in $memory_horizon, at the pace of the "
        "last $memory_window",
        expr=_RUNS_OUT,
        hold="$soon",
        keep="$after",
        summary="Run {{ $labels.run }}{{ with $labels.rank }}, rank {{ . }}{{ end }}: memory runs "
        "out within $memory_horizon",
        description="The pace of the last $memory_window leads to {{ $value | humanize1024 }}B in "
        "$memory_horizon, above the limit of "
        + first("max(traceml_rank_memory_limit_bytes{$matching})", "{{ .Value | humanize1024 }}B")
        + f". Next: save a checkpoint while there is time; then {_LEAK}",
    ),
    Alert(
        name="TraceMLMemoryCreep",
        severity="warning",
        when="MEMORY CREEP holds: memory keeps growing",
        expr=held("step_memory", "MEMORY_CREEP"),
        hold="$hold",
        keep="$after",
        summary=f"Run {{{{ $labels.run }}}}{_named('MEMORY_CREEP')}: memory keeps growing",
        description=f"{_SCORE} Next: {_LEAK}",
    ),
    Alert(
        name="TraceMLMemoryImbalance",
        severity="warning",
        when="IMBALANCE holds: one rank uses far more memory than the others",
        expr=held("step_memory", "IMBALANCE"),
        hold="$hold",
        keep="$after",
        summary=f"Run {{{{ $labels.run }}}}{_named('IMBALANCE')}: one rank uses far more memory "
        "than the others",
        description=f"{_SCORE} Next: look at what only that rank holds: the length of its samples, "
        "its shard, cached tensors.",
    ),
)

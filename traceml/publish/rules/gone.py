"""Alerts on runs and ranks that stand still or are gone, and on telemetry that is lost."""

from textwrap import indent

from traceml.publish.rules.rule import Alert
from traceml.publish.rules.wording import RUNNING, first

_MEMORY = "1h"  # so long it is remembered what was there

# The sidecar's own score abstains in evaluations, checkpoints and the like, when all ranks have
# said goodbye, and knows how long a step may take; and it is by the clock of the node.
_STANDS_STILL = (
    "time() - traceml_last_step_timestamp_seconds > $stalled_seconds\n"
    'and on ($sidecar) traceml_diagnosis_score{domain="step_time",state="STALLED"} >= 1\n'
    f"and on ($sidecar) {RUNNING}\n"
)

_STALLED = (
    "max by ($run, rank, phase) (\n"
    "  (\n"
    f"{indent(_STANDS_STILL, ' ' * 4)}"
    "  )\n"
    "  * on ($sidecar) group_left (rank, phase)\n"
    '  max by ($sidecar, rank, phase) (traceml_diagnosis_info{state="STALLED",rank!=""})\n'
    ")\n"
    "or on ($run)\n"
    "max by ($run) (\n"
    f"{indent(_STANDS_STILL, ' ' * 2)}"
    ")"
)

# Before the first rank has spoken nobody is missing: they are still loading.
_SOME_ARE_MISSING = (
    "  run:traceml_ranks_missing > 0\n"
    "  and on ($run) traceml_ranks_reporting > 0\n"
    f"  and on ($run) {RUNNING}\n"
)

_RANK_MISSING = (
    "(\n"
    f"{_SOME_ARE_MISSING}"
    ")\n"
    "* on ($run) group_right ()\n"
    "count by ($run, rank) (\n"
    f"  last_over_time(run_rank:traceml_run_start_timestamp_seconds[{_MEMORY}])\n"
    "  >= on ($run) group_left () min by ($run) (traceml_run_start_timestamp_seconds)\n"
    "  unless on ($run, rank) traceml_rank_info\n"
    ")\n"
    "or on ($run)\n"
    "(\n"
    f"{_SOME_ARE_MISSING}"
    ")"
)


GONE: tuple[Alert, ...] = (
    Alert(
        name="TraceMLStalled",
        severity="critical",
        when="no step was completed for $stalled_after, and the sidecar says STALLED",
        expr=_STALLED,
        hold="$soon",
        keep="$soon",
        summary="Run {{ $labels.run }} stands still{{ with $labels.rank }}: rank {{ . }}{{ with "
        "$labels.phase }} in {{ . }}{{ end }} is waited for{{ end }}",
        description="No step was completed for {{ $value | humanizeDuration }}. Next: "
        "{{ if $labels.rank }}look at the process of rank {{ $labels.rank }}: `py-spy dump --pid` "
        "shows where it is, `dmesg` whether it was killed.{{ else }}all ranks wait for an exchange "
        "that does not end: look at the network, and for ranks that call different collectives."
        "{{ end }}",
    ),
    Alert(
        name="TraceMLRankMissing",
        severity="critical",
        when="a rank is silent for 10 s without a goodbye, or never spoke, while others report",
        expr=_RANK_MISSING,
        hold="$missing_after",
        keep="$soon",
        summary="{{ with $labels.rank }}Rank {{ . }}{{ else }}A rank{{ end }} of run "
        "{{ $labels.run }} is missing",
        description="{{ $value }} of "
        + first("run:traceml_ranks_expected{$matching}", "{{ .Value }}")
        + " ranks do not report. Next: look whether {{ if $labels.rank }}its process lives, and in "
        "`dmesg` whether it was killed{{ else }}all were started: a rank that was never heard of "
        "has no name here{{ end }}.",
    ),
    Alert(
        name="TraceMLNeverStarted",
        severity="warning",
        when="a run has not completed its first step after $never_started_after",
        expr="max by ($run) (\n"
        "  time() - traceml_run_start_timestamp_seconds > $never_started_seconds\n"
        "  unless on ($sidecar) traceml_last_step_timestamp_seconds\n"
        f"  and on ($sidecar) {RUNNING}\n"
        ")",
        hold="$soon",
        keep="$soon",
        summary="Run {{ $labels.run }} has not completed a single step",
        description="It was started {{ $value | humanizeDuration }} ago. Ranks that report: "
        + first("run:traceml_ranks_reporting{$matching}", "{{ .Value }}")
        + ". Next: look at what the script prints: is it loading, compiling, waiting for other "
        "nodes? None reports before its first backward pass.",
    ),
    Alert(
        name="TraceMLTargetDown",
        severity="warning",
        when="Prometheus cannot scrape a sidecar whose run was running when it was last seen",
        expr="max by ($run_and_target) (\n"
        f'  last_over_time(traceml_run_state{{state="running"}}[{_MEMORY}])\n'
        ") == 1\n"
        "and on ($target) up == 0",
        hold="$missing_after",
        summary="The sidecar of run {{ $labels.run }} at {{ $labels.instance }} does not answer",
        description="When it was last scraped its run was running. Next: look whether the machine "
        "and the run are still there; without a sidecar nothing is known of this node, and no "
        "other alert can fire for it.",
    ),
    Alert(
        name="TraceMLSidecarRestarted",
        severity="warning",
        when=f"a sidecar was started again within {_MEMORY}",
        expr=f"max by ($sidecar) (increase(traceml_sidecar_restarts_total[{_MEMORY}])) > 0\n"
        f"and on ($sidecar) {RUNNING}",
        hold="$soon",
        summary="The sidecar of run {{ $labels.run }} at {{ $labels.instance }} was started again",
        description='About {{ $value | printf "%.0f" }} times within '
        f"{_MEMORY}; `traceml run` gives up after five. The training is not affected. Next: "
        "read sidecar.log in the run's folder, and `dmesg` for the out-of-memory killer.",
    ),
    Alert(
        name="TraceMLRecordsDropped",
        severity="warning",
        when=f"more than 1% of the steps' records were lost within {_MEMORY}",
        expr=f"sum by ($run) (increase(traceml_records_dropped_total[{_MEMORY}]))\n"
        "/ (\n"
        f"  sum by ($run) (increase(traceml_records_received_total[{_MEMORY}]))\n"
        f"  + sum by ($run) (increase(traceml_records_dropped_total[{_MEMORY}]))\n"
        ")\n"
        "> 0.01\n"
        f"and on ($run) {RUNNING}",
        hold="$soon",
        summary="TraceML loses records of run {{ $labels.run }}",
        description=f"Within {_MEMORY} {{{{ $value | humanizePercentage }}}} of them were lost, "
        "most: "
        + first(
            "topk(1, sum by (rank, reason) "
            f"(increase(traceml_records_dropped_total{{$matching}}[{_MEMORY}])))",
            "rank {{ .Labels.rank }}, {{ .Labels.reason }}",
        )
        + ". The training is not affected, its figures have gaps. Next: look whether the sidecar "
        "has the CPU it needs.",
    ),
    Alert(
        name="TraceMLJournalNotWritten",
        severity="warning",
        when="the sidecar cannot write its journal",
        expr="max by ($sidecar) (increase(traceml_records_unjournaled_total[$rate_window])) > 0\n"
        f"and on ($sidecar) {RUNNING}",
        hold="$soon",
        summary="The sidecar of run {{ $labels.run }} at {{ $labels.instance }} cannot write its "
        "journal",
        description='About {{ $value | printf "%.0f" }} records of the last $rate_window are in '
        "its memory only, and are lost if it dies. The training is not affected. Next: make room "
        "on the disk of the run's folder; the journal then catches up by itself.",
    ),
    Alert(
        name="TraceMLExportLost",
        severity="warning",
        when="what a sidecar sends through OTLP does not arrive",
        expr="max by ($sidecar, signal) (increase(traceml_otlp_lost_total[$rate_window])) > 0\n"
        f"and on ($sidecar) {RUNNING}",
        hold="$hold",
        summary="The {{ $labels.signal }} that the sidecar of run {{ $labels.run }} at "
        "{{ $labels.instance }} sends through OTLP do not arrive",
        description='About {{ $value | printf "%.0f" }} were lost in the last $rate_window. '
        "Counters catch up by themselves, gauges have gaps; /metrics and the training are not "
        "affected. Next: look whether the collector is there and takes what it is sent: its own "
        "log, then sidecar.log in the run's folder.",
    ),
)

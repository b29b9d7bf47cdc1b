"""Alerts on steps that take longer than they need to."""

from traceml.publish.rules.rule import Alert, Severity
from traceml.publish.rules.wording import WAS_RUNNING, WHERE, each, held, lately, shares

_LOST = "run_rank_phase:traceml_straggler_lost:ratio"

# Where one rank has been above for as long as its own alert takes, that one says more.
_ONE_ALONE = f"(min_over_time({_LOST}[$hold]) > $lost_share)"

_LOOK_AT_RANK = (
    'Next: {{ if eq $labels.phase "dataloader" "h2d" }}look at what this rank reads and how: its '
    "storage, its workers, the size of its shard."
    '{{ else if eq $labels.phase "other" }}look at what only this rank does between its phases: '
    "logging, metrics, checkpoints, a busy core."
    "{{ else }}compare this rank with the others: clocks and temperature of its device, other "
    "processes on it, the length of its inputs.{{ end }}"
)
_ITS_PHASES = each(
    "sort_desc(run_rank_phase:traceml_straggler_score{$matching,rank=%q})",
    "{{ $each.Labels.phase }}",
    "rank",
)
_WHO_TAKES_TURNS = each(
    f"topk(4, {_LOST}{{$matching}} > 0)",
    "rank {{ $each.Labels.rank }} in {{ $each.Labels.phase }} "
    "{{ $each.Value | humanizePercentage }}",
)


def _straggler(severity: Severity, which: str = "") -> Alert:
    return Alert(
        name="TraceMLStraggler",
        severity=severity,
        when=f"one rank and phase costs more than $lost_percent{which} of the wall time",
        expr=f"{_LOST} > $lost_share{which}\nand on ($run) {WAS_RUNNING}",
        hold="$hold",
        keep="$after_critical" if severity == "critical" else "$after",
        summary="Rank {{ $labels.rank }} of run {{ $labels.run }} holds back the others in "
        "{{ $labels.phase }}",
        description="Over $rate_window the other ranks waited {{ $value | humanizePercentage }} of "
        f"the time for rank {{{{ $labels.rank }}}}{WHERE} in {{{{ $labels.phase }}}}; "
        f"$lost_percent{which} is tolerated. {_LOOK_AT_RANK}",
    )


def _across_nodes(severity: Severity, score: int) -> Alert:
    return Alert(
        name="TraceMLStragglerAcrossNodes",
        severity=severity,
        when=f"a rank of a job on several nodes scores {score} or more in "
        "`run_rank:traceml_straggler_score`, and its own node does not see it",
        expr="max by ($run, node, rank) (\n"
        f"  {lately('run_rank:traceml_straggler_score')}\n"
        f") >= {score}\n"
        f"and on ($run) count by ($run) ({lately('traceml_ranks_expected')}) > 1\n"
        f"and on ($run) {WAS_RUNNING}\n"
        f"unless on ($run, rank) {_ONE_ALONE}",
        hold="$longer",
        keep="$after_critical" if severity == "critical" else "$after",
        summary="Rank {{ $labels.rank }} on node {{ $labels.node }} of run {{ $labels.run }} holds "
        f"back the other nodes in {_ITS_PHASES}",
        description=f"The own work of rank {{{{ $labels.rank }}}}{WHERE} exceeds that of the other "
        "nodes' ranks by "
        '{{ $value | printf "%.1f" }} times the tolerated $lost_percent of a step, and they wait '
        "for it. Next: if all ranks of the node are named, look at the machine (clocks, cooling, "
        "other jobs, storage), else at the rank.",
    )


def _bound(name: str, state: str, when: str, phases: str, summary: str, action: str) -> Alert:
    return Alert(
        name=name,
        severity="warning",
        when=when,
        expr=held("step_time", state),
        hold="$hold",
        keep="$after",
        summary=f"Run {{{{ $labels.run }}}} {summary}",
        description='Its score is {{ $value | printf "%.1f" }}, and 1 is tolerated. Shares of the '
        f"typical step: {shares(phases)}. Next: {action}",
    )


SLOW: tuple[Alert, ...] = (
    _straggler("critical", "_critical"),
    _straggler("warning"),
    Alert(
        name="TraceMLRankImbalance",
        severity="warning",
        when="the ranks of a node together cost more than $lost_percent of the wall time, and none "
        "of them in one phase has done so for $hold",
        expr="run:traceml_straggler_lost:ratio > $lost_share\n"
        f"and on ($run) {WAS_RUNNING}\n"
        f"unless on ($run) {_ONE_ALONE}",
        hold="$longer",
        keep="$after",
        summary="The ranks of run {{ $labels.run }} wait for each other, now for this one, now for "
        "that",
        description="Over $rate_window {{ $value | humanizePercentage }} of the time went into it; "
        f"$lost_percent is tolerated. The most of it: {_WHO_TAKES_TURNS}. Next: look for work that "
        "differs from batch to batch or from phase to phase: the length of samples, how they are "
        "spread over ranks, other processes on the machine.",
    ),
    _across_nodes("critical", 2),
    _across_nodes("warning", 1),
    _bound(
        "TraceMLInputBound",
        "INPUT_BOUND",
        "INPUT-BOUND holds: all ranks wait for their data",
        "dataloader|h2d",
        "waits for its input, in dataloader and h2d on all ranks",
        "fetch ahead: more DataLoader workers, a larger prefetch_factor, persistent_workers, data "
        "closer to the machine or already decoded.",
    ),
    _bound(
        "TraceMLH2DBound",
        "H2D_BOUND",
        "H2D-BOUND holds: copies to the device take long",
        "h2d",
        "waits for copies to its devices, in h2d on all ranks",
        "pin_memory=True in the DataLoader, non_blocking=True in `.to()`, fewer and larger copies.",
    ),
    _bound(
        "TraceMLCommBound",
        "COMM_BOUND",
        "COMM-BOUND holds: the exchange itself takes long; judged on single nodes only",
        "collective_wait",
        "waits for its own exchange, in collective_wait on all ranks",
        "exchange less often or less: accumulation under no_sync(), larger batches, compression "
        "hooks; check the network between the ranks.",
    ),
    _bound(
        "TraceMLLaunchBound",
        "LAUNCH_BOUND",
        "LAUNCH-BOUND holds: devices wait for the CPU to queue work",
        "forward|backward|optimizer",
        "leaves its devices idle, in forward, backward and optimizer",
        "give the device more to do for each kernel: a larger batch, torch.compile or CUDA graphs, "
        "fewer small kernels, no `.item()` in the loop.",
    ),
    _bound(
        "TraceMLWaitHeavy",
        "WAIT_HEAVY",
        "WAIT-HEAVY holds: much of the step is in no phase",
        "other",
        "spends its steps between the phases, in other on all ranks",
        "look at what the loop does there: logging, metrics, `.item()`, a loader that is not "
        "torch's.",
    ),
    _bound(
        "TraceMLJitter",
        "JITTER",
        "JITTER holds: some steps take far longer than most, and nothing explains it",
        ".+",
        "has some steps that take far longer than most",
        "look at what happens only in the long ones: garbage collection, uploads, other jobs on "
        "the machine.",
    ),
)

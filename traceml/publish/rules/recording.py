"""What joins the sidecars of many nodes into the values of one job.

A name says what is left of the labels, and then the sidecar's metric that it is over all
nodes. Each rule may read those above it.
"""

from textwrap import indent

from traceml.publish.rules.rule import RecordingRule

_SEVERAL_NODES = "and on ($run) count by ($run) (traceml_ranks_expected) > 1"
_FLOOR_SECONDS = 0.001  # as in the sidecar's policy: shorter differences are nobody's problem


def lower_median(series: str, by: str) -> str:
    """The median that is one of the values: of an even number, the lower of the middle two."""
    return (
        f"max by ({by}) (\n"
        f"  {series}\n"
        f"  <= on ({by}) group_left ()\n"
        f"  quantile by ({by}) (0.5, {series})\n"
        ")"
    )


def _or_of_nodes(ranks: str, nodes: str) -> str:
    """Of all ranks, or where these have no series of their own, of the slowest node."""
    return f"{ranks}\nor\n{nodes}"


def _lost(by: str, within: str, score: str) -> str:
    """What is lost on a node, or on several, whatever is more."""
    return (
        f"max by ({by}) (\n"
        f"  {within}\n"
        "  or\n"
        f"  label_replace(\n    {score} * $lost_share\n    {_SEVERAL_NODES},\n"
        '    "over", "nodes", "", ""\n  )\n'
        ")"
    )


def _median_below(series: str, by: str) -> str:
    """The lower median of the others, for whoever is above it.

    That is the middle value's neighbour below if there is a middle one, so a quantile
    a little below the middle; the factor lets equal values count as equal.
    """
    return (
        f"max by ({by}) (\n"
        f"  {series}\n"
        f"  <= on ({by}) group_left ()\n"
        f"  (quantile by ({by}) (0.49999, {series}) * 1.000000001)\n"
        ")"
    )


def _median_above(series: str, by: str) -> str:
    """The lower median of the others, for whoever is below it."""
    return (
        f"min by ({by}) (\n"
        f"  {series}\n"
        f"  >= on ({by}) group_left ()\n"
        f"  quantile by ({by}) (0.5, {series})\n"
        ")"
    )


def _with_group(labels: str, series: str) -> str:
    """A series of ranks with what makes them comparable, and where they are."""
    return (
        f"max by ($run, node, group, {labels}) (\n"
        f"  {series}\n"
        "  * on ($sidecar, rank) group_left (node, group)\n"
        "  max by ($sidecar, node, group, rank) (traceml_rank_info)\n"
        ")"
    )


def _score(excess: str) -> str:
    """Of those whose excess made them late: in units of what is tolerated of a step."""
    return (
        f"(\n{indent(excess, '  ')}\n  >= {_FLOOR_SECONDS:g}\n"
        "  <= on ($run, group, rank) group_left () (2 * run_rank:traceml_rank_awaited_seconds)\n"
        ")\n"
        "/ on ($run) group_left () run:traceml_step_median_seconds\n"
        "/ $lost_share"
    )


def _worst(name: str, by: str) -> tuple[RecordingRule, ...]:
    """Of the step or the phases: the largest over all nodes, whose it is, and the skew."""
    level, what = ("run_phase", "phase") if "phase" in by else ("run", "step")
    metric = f"traceml_{what}"
    return (
        RecordingRule(
            f"{level}:{metric}_worst_seconds",
            f"{name} of the slowest rank.",
            f"max by ({by}) ({metric}_worst_seconds)",
        ),
        RecordingRule(
            f"{level}:{metric}_worst_rank",
            f"Whose that is; the rank is the value. {name}: of several, the first.",
            f"min by ({by}) (\n"
            f"  {metric}_worst_rank\n"
            f"  and on ({by}, instance)\n"
            f"  {metric}_worst_seconds == on ({by}) group_left () {level}:{metric}_worst_seconds\n"
            ")",
        ),
        RecordingRule(
            f"{level}:{metric}_skew_ratio",
            "How much longer the worst is than the median.",
            f"({level}:{metric}_worst_seconds - {level}:{metric}_median_seconds)\n"
            f"/ ({level}:{metric}_median_seconds > 0)",
        ),
    )


_OWN = 'run_rank_phase:traceml_rank_phase_seconds{phase!="collective_wait"}'
_WAITING = 'run_rank_phase:traceml_rank_phase_seconds{phase="collective_wait"}'

RECORDING: tuple[RecordingRule, ...] = (
    RecordingRule(
        "run:traceml_ranks_expected",
        "How many ranks the job should have, as far as its sidecars are seen.",
        "sum by ($run) (traceml_ranks_expected)",
    ),
    RecordingRule(
        "run:traceml_ranks_reporting",
        "How many of them were heard of in the last seconds.",
        "sum by ($run) (traceml_ranks_reporting)",
    ),
    RecordingRule(
        "run:traceml_ranks_missing",
        "How many are neither there nor have said goodbye.",
        "clamp_min(\n"
        "  sum by ($run) (traceml_ranks_expected)\n"
        "  - (count by ($run) (traceml_rank_info) or sum by ($run) (traceml_ranks_reporting)),\n"
        "  0\n"
        ")",
    ),
    RecordingRule(
        "run_rank:traceml_run_start_timestamp_seconds",
        "A rank that is there, and when its node's part of the run was started: what tells who is "
        "missing.",
        "max by ($run, rank) (\n"
        "  max by ($sidecar, rank) (traceml_rank_info)\n"
        "  * on ($sidecar) group_left ()\n"
        "  max by ($sidecar) (traceml_run_start_timestamp_seconds)\n"
        ")",
    ),
    RecordingRule(
        "run:traceml_steps_completed",
        "Steps that all nodes have completed.",
        "min by ($run) (traceml_steps_completed_total)",
    ),
    RecordingRule(
        "run:traceml_steps_completed:rate",
        "Steps a second, over the rate window.",
        "min by ($run) (rate(traceml_steps_completed_total[$rate_window]))",
    ),
    RecordingRule(
        "run:traceml_step_median_seconds",
        "Step time of the median rank of all nodes.",
        _or_of_nodes(
            lower_median("traceml_rank_step_seconds", "$run"),
            "max by ($run) (traceml_step_median_seconds)",
        ),
    ),
    *_worst("Step time", "$run"),
    RecordingRule(
        "run_phase:traceml_phase_median_seconds",
        "Time of the median rank of all nodes in a phase.",
        _or_of_nodes(
            lower_median("traceml_rank_phase_seconds", "$run, phase"),
            "max by ($run, phase) (traceml_phase_median_seconds)",
        ),
    ),
    *_worst("Time in a phase", "$run, phase"),
    RecordingRule(
        "run_phase:traceml_phase_share_ratio",
        "A phase's share of the typical step.",
        "run_phase:traceml_phase_median_seconds\n"
        "/ on ($run) group_left () (run:traceml_step_median_seconds > 0)",
    ),
    RecordingRule(
        "run_rank_phase:traceml_rank_phase_seconds",
        "A rank's typical time in a phase, with its node and the group of ranks it compares to.",
        _with_group("rank, phase", "max by ($sidecar, rank, phase) (traceml_rank_phase_seconds)"),
    ),
    RecordingRule(
        "run_rank:traceml_rank_own_seconds",
        "A rank's own work in a step: all but waiting.",
        _with_group(
            "rank",
            "(\n"
            "    max by ($sidecar, rank) (traceml_rank_step_seconds)\n"
            "    - max by ($sidecar, rank) "
            '(traceml_rank_phase_seconds{phase="collective_wait"})\n'
            "  )",
        ),
    ),
    RecordingRule(
        "run_rank:traceml_rank_awaited_seconds",
        "How much longer the others of its group wait in a step than this rank does: they wait for "
        "it.",
        "max by ($run, group, rank) (\n"
        f"{indent(_median_above(_WAITING, '$run, group'), '  ')}\n"
        "  - on ($run, group) group_right ()\n"
        f"  {_WAITING}\n"
        ")",
    ),
    RecordingRule(
        "run_rank_phase:traceml_straggler_score",
        "By how much a rank exceeds the others of its group in a phase, if they wait for it: 1 is "
        "the tolerated share of the step.",
        _score(
            f"{_OWN}\n"
            "- on ($run, group, phase) group_left ()\n"
            f"{_median_below(_OWN, '$run, group, phase')}"
        ),
    ),
    RecordingRule(
        "run_rank:traceml_straggler_score",
        "The same for all of its own work.",
        _score(
            "run_rank:traceml_rank_own_seconds\n"
            "- on ($run, group) group_left ()\n"
            f"{_median_below('run_rank:traceml_rank_own_seconds', '$run, group')}"
        ),
    ),
    RecordingRule(
        "run_rank_phase:traceml_straggler_lost:ratio",
        "Share of wall time, over the rate window, that the ranks of a node waited for this one, "
        "by the phase in which it was slow.",
        "sum by ($run, rank, phase) (rate(traceml_straggler_lost_seconds_total[$rate_window]))",
    ),
    RecordingRule(
        "run:traceml_straggler_lost:ratio",
        "The same for all ranks of a node together, of the node that lost the most.",
        "max by ($run) (\n"
        "  sum by ($sidecar) (rate(traceml_straggler_lost_seconds_total[$rate_window]))\n"
        ")",
    ),
    RecordingRule(
        "run_rank_phase:traceml_time_lost:ratio",
        "Share of a step that is lost to this rank, by phase: what its own node measured, or what "
        "it exceeds the ranks of all nodes by.",
        _lost(
            "$run, rank, phase",
            "run_rank_phase:traceml_straggler_lost:ratio",
            "run_rank_phase:traceml_straggler_score",
        ),
    ),
    RecordingRule(
        "run:traceml_time_lost:ratio",
        "The same for the job: of the node that loses the most, or over all nodes.",
        _lost("$run", "run:traceml_straggler_lost:ratio", "run_rank:traceml_straggler_score"),
    ),
    RecordingRule(
        "run_rank_phase:traceml_straggler_across_nodes",
        "A rank that holds back other nodes, and whose own node does not say so: 1 where it "
        "exceeds what is tolerated, 2 where it does so twice.",
        "max by ($run, node, rank, phase) (\n"
        "  clamp_max(floor(run_rank_phase:traceml_straggler_score), 2) >= 1\n"
        f"  {_SEVERAL_NODES}\n"
        '  unless on ($run, rank) traceml_diagnosis_info{state=~".*STRAGGLER"}\n'
        ")",
    ),
)

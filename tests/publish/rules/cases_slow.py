"""Steps that take longer than they need to: when each alert fires, with which words, when not."""

from tests.publish.rules.promtool import Case, Fired
from tests.publish.rules.scrapes import (
    ENDED,
    Series,
    constant,
    expected,
    growing,
    lost,
    one,
    rank,
    score,
    shares,
    state,
    step,
    stepping,
    unscraped,
    until,
)

COMPARE = (
    "Next: compare this rank with the others: clocks and temperature of its device, other "
    "processes on it, the length of its inputs."
)


def waited(share: str, severity: str, tolerated: str, phase: str = "forward") -> Fired:
    return Fired(
        severity,
        f"Rank 1 of run demo holds back the others in {phase}",
        f"Over 5m the other ranks waited {share} of the time for rank 1 (node 0, a:1) in {phase}; "
        f"{tolerated} is tolerated. {COMPARE}",
        {"rank": "1", "phase": phase},
    )


# The second of two ranks costs the first some seconds a minute.
def straggler(seconds: float) -> dict[str, str]:
    return {**state(), **rank(0), **rank(1), **lost(0, 0), **lost(seconds, 1)}


STRAGGLERS = (
    Case(
        "TraceMLStraggler",
        "15 % of the time is a warning",
        straggler(9),
        (waited("15%", "warning", "10%"),),
    ),
    Case(
        "TraceMLStraggler",
        "25 % is critical as well",
        straggler(15),
        (waited("25%", "critical", "20%"), waited("25%", "warning", "10%")),
    ),
    Case(
        "TraceMLStraggler",
        "a scrape that failed does not set it back",
        {**straggler(9), **unscraped(state())},
        (waited("15%", "warning", "10%"),),
        minutes=15,
    ),
    Case("TraceMLStraggler", "8 % is tolerated", straggler(4.8)),
    Case("TraceMLStraggler", "10 minutes are not over", straggler(9), minutes=9),
    Case("TraceMLStraggler", "the run has ended", {**straggler(15), **state(ENDED)}, minutes=30),
    Case(
        "TraceMLStraggler",
        "one slow step of a minute is no straggler",
        {**state(), **rank(1), **lost(0, 1, value=until(12, 0, 60))},
        minutes=20,
    ),
    Case(
        "TraceMLStraggler",
        "nor is a counter that was set back a little",
        {**state(), **rank(1), **lost(0, 1, value=until(12, 900, 890))},
        minutes=20,
    ),
    Case(
        "TraceMLStraggler",
        "a slow loader is looked for elsewhere than a slow device",
        {**state(), **lost(9, 1, "dataloader")},
        (
            Fired(
                "warning",
                "Rank 1 of run demo holds back the others in dataloader",
                "Over 5m the other ranks waited 15% of the time for rank 1 in dataloader; 10% is "
                "tolerated. Next: look at what this rank reads and how: its storage, its workers, "
                "the size of its shard.",
                {"rank": "1", "phase": "dataloader"},
            ),
        ),
    ),
    Case(
        "TraceMLStraggler",
        "a busy rank 0 is looked for between the phases",
        {**state(), **lost(9, 0, "other")},
        (
            Fired(
                "warning",
                "Rank 0 of run demo holds back the others in other",
                "Over 5m the other ranks waited 15% of the time for rank 0 in other; 10% is "
                "tolerated. Next: look at what only this rank does between its phases: logging, "
                "metrics, checkpoints, a busy core.",
                {"rank": "0", "phase": "other"},
            ),
        ),
    ),
)

# 12 s a minute, for eight minutes on rank 0, then for eight on rank 1, and so on.
TURNS = [12.0] * 8 + [0.0] * 8
FLIPS = {
    **state(),
    **lost(0, 0, value=stepping(TURNS * 3)),
    **lost(0, 1, value=stepping([0.0] * 8 + TURNS * 3)),
}


def in_turns(share: str, most: str) -> Fired:
    return Fired(
        "warning",
        "The ranks of run demo wait for each other, now for this one, now for that",
        f"Over 5m {share} of the time went into it; 10% is tolerated. The most of it: {most}. "
        "Next: look for work that differs from batch to batch or from phase to phase: the length "
        "of samples, how they are spread over ranks, other processes on the machine.",
    )


IMBALANCES = (
    Case(
        "TraceMLRankImbalance",
        "two ranks in turns",
        {**state(), **lost(4.5, 0), **lost(4.2, 1)},
        (in_turns("14.5%", "rank 0 in forward 7.5%, rank 1 in forward 7%"),),
    ),
    Case(
        "TraceMLRankImbalance",
        "one rank in several phases",
        {**state(), **lost(4.5, 1), **lost(4.2, 1, "backward")},
        (in_turns("14.5%", "rank 1 in forward 7.5%, rank 1 in backward 7%"),),
    ),
    Case(
        "TraceMLRankImbalance",
        "a straggler that flips each eight minutes",
        FLIPS,
        (in_turns("20%", "rank 0 in forward 20%"),),
        minutes=40,
    ),
    Case("TraceMLStraggler", "that flips each eight minutes is no one's", FLIPS),
    Case("TraceMLRankImbalance", "one straggler has its own alert", straggler(9)),
    Case("TraceMLRankImbalance", "little", {**state(), **lost(2, 0), **lost(2, 1)}),
    Case(
        "TraceMLRankImbalance",
        "of several nodes each loses little",
        {
            **state(),
            **{
                series: value
                for node in range(8)
                for series, value in lost(2, node, instance=f"{node}:1").items()
            },
        },
    ),
    Case(
        "TraceMLRankImbalance",
        "the run has ended",
        {**lost(4.5, 0), **lost(4.2, 1), **state(ENDED)},
    ),
)

# Four ranks on two nodes; those of the second compute longer, and both wait little.
SLOW_NODE = {
    **state(),
    **expected(2, constant(2)),
    **expected(2, constant(2), "b:1"),
    **step(0, 0.06, 0.03),
    **step(1, 0.06, 0.03),
    **step(2, 0.075, 0.015, "b:1", node=1),
    **step(3, 0.085, 0.005, "b:1", node=1),
}


def held_back(rank: str, severity: str, score: str) -> Fired:
    return Fired(
        severity,
        f"Rank {rank} on node 1 of run demo holds back the other nodes in forward",
        f"The own work of rank {rank} (node 1, b:1) exceeds that of the other nodes' ranks by "
        f"{score} times the tolerated "
        "10% of a step, and they wait for it. Next: if all ranks of the node are named, look at "
        "the machine (clocks, cooling, other jobs, storage), else at the rank.",
        {"rank": rank, "node": "1"},
    )


ACROSS_NODES = (
    Case(
        "TraceMLStragglerAcrossNodes",
        "a slow node",
        SLOW_NODE,
        (
            held_back("2", "warning", "1.5"),
            held_back("3", "warning", "2.5"),
            held_back("3", "critical", "2.5"),
        ),
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "a slow node, of which a scrape failed",
        unscraped(SLOW_NODE),
        (
            held_back("2", "warning", "1.5"),
            held_back("3", "warning", "2.5"),
            held_back("3", "critical", "2.5"),
        ),
        minutes=18,
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "its own node has named it",
        {**SLOW_NODE, **lost(9, 2, instance="b:1"), **lost(9, 3, instance="b:1")},
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "a long phase in which nobody waits for it",
        {**SLOW_NODE, **step(2, 0.075, 0.03, "b:1", 1), **step(3, 0.085, 0.03, "b:1", 1)},
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "longer steps for which nobody waits: the ranks go their own ways",
        {
            **SLOW_NODE,
            **step(2, 0.09, 0.03, "b:1", 1, length=0.13),
            **step(3, 0.09, 0.03, "b:1", 1, length=0.13),
        },
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "a single node has its own alert",
        {
            **state(),
            **expected(4, constant(4)),
            **{k: v for n in range(3) for k, v in step(n, 0.06, 0.03).items()},
            **step(3, 0.085, 0.005),
        },
    ),
    Case(
        "TraceMLStragglerAcrossNodes",
        "the run has ended",
        {**SLOW_NODE, **state(constant(0)), **state(state="completed")},
    ),
)


def bound(alert: str, state_name: str, phase: str, summary: str, action: str) -> tuple[Case, ...]:
    """What holds, what does not, what is mere information, what is no longer running."""
    holds = score("step_time", state_name, 1.7)
    measured = {**state(), **shares(**{phase: 0.17})}
    fired = Fired(
        "warning",
        f"Run demo {summary}",
        f"Its score is 1.7, and 1 is tolerated. Shares of the typical step: {phase} 17%. "
        f"Next: {action}",
    )
    return (
        Case(alert, "holds", {**measured, **holds}, (fired,)),
        Case(alert, "a scrape failed", unscraped({**measured, **holds}), (fired,), minutes=14),
        Case(alert, "below", {**measured, **score("step_time", state_name, 0.9)}),
        Case(alert, "held down", {**measured, **score("step_time", state_name, 1.7, severity=0)}),
        Case(alert, "too short", {**measured, **holds}, minutes=9),
        Case(alert, "ended", {**measured, **holds, **state(ENDED)}),
        Case(alert, "stands still", {**measured, **holds, **last_step(constant(0))}),
        Case(alert, "goes on", {**measured, **holds, **last_step(growing(60))}, (fired,)),
    )


def last_step(at: str) -> Series:
    """When the last step was completed, of steps that take a second."""
    lengths = one("traceml_step_median_seconds", constant(1))
    return {**one("traceml_last_step_timestamp_seconds", at), **lengths}


BOUND = (
    *bound(
        "TraceMLInputBound",
        "INPUT_BOUND",
        "dataloader",
        "waits for its input, in dataloader and h2d on all ranks",
        "fetch ahead: more DataLoader workers, a larger prefetch_factor, persistent_workers, data "
        "closer to the machine or already decoded.",
    ),
    *bound(
        "TraceMLH2DBound",
        "H2D_BOUND",
        "h2d",
        "waits for copies to its devices, in h2d on all ranks",
        "pin_memory=True in the DataLoader, non_blocking=True in `.to()`, fewer and larger copies.",
    ),
    *bound(
        "TraceMLCommBound",
        "COMM_BOUND",
        "collective_wait",
        "waits for its own exchange, in collective_wait on all ranks",
        "exchange less often or less: accumulation under no_sync(), larger batches, compression "
        "hooks; check the network between the ranks.",
    ),
    *bound(
        "TraceMLLaunchBound",
        "LAUNCH_BOUND",
        "forward",
        "leaves its devices idle, in forward, backward and optimizer",
        "give the device more to do for each kernel: a larger batch, torch.compile or CUDA graphs, "
        "fewer small kernels, no `.item()` in the loop.",
    ),
    *bound(
        "TraceMLWaitHeavy",
        "WAIT_HEAVY",
        "other",
        "spends its steps between the phases, in other on all ranks",
        "look at what the loop does there: logging, metrics, `.item()`, a loader that is not "
        "torch's.",
    ),
    *bound(
        "TraceMLJitter",
        "JITTER",
        "forward",
        "has some steps that take far longer than most",
        "look at what happens only in the long ones: garbage collection, uploads, other jobs on "
        "the machine.",
    ),
)

SLOW = (*STRAGGLERS, *IMBALANCES, *ACROSS_NODES, *BOUND)

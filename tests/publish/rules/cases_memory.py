"""Memory that runs short: when each alert fires, with which words, and when not."""

from tests.publish.rules.promtool import Case, Fired
from tests.publish.rules.scrapes import (
    ENDED,
    GIB,
    constant,
    growing,
    info,
    one,
    score,
    state,
)

PEAK = one("traceml_memory_peak_worst_bytes", constant(75 * GIB), kind="allocated")
LEAK = (
    "look for what is kept from step to step: losses or outputs stored with their graph, growing "
    "lists and caches."
)


def memory(alert: str, state_name: str, severity: str, summary: str, action: str) -> Case:
    return Case(
        alert,
        f"holds, {severity}",
        {
            **state(),
            **PEAK,
            **score("step_memory", state_name, 1.25),
            **info("step_memory", state_name, severity, rank="3"),
        },
        tuple(
            Fired(
                each,
                f"Run demo, rank 3: {summary}",
                "Its score is 1.25, and 1 is tolerated. Highest peaks: allocated 75GiB. "
                f"Next: {action}",
            )
            for each in ("critical", "warning")
            if severity == "critical" or each == severity
        ),
    )


def quiet(alert: str, state_name: str) -> tuple[Case, ...]:
    held = score("step_memory", state_name, 1.25)
    return (
        Case(alert, "below", {**state(), **score("step_memory", state_name, 0.9)}),
        Case(alert, "held down", {**state(), **score("step_memory", state_name, 1.25, severity=0)}),
        Case(alert, "ended", {**held, **state(ENDED)}),
    )


FREE = "a smaller batch with accumulation, activation checkpointing, sharding."
PRESSURE = ("TraceMLMemoryPressure", "HIGH_PRESSURE")
PRESSING = "memory is almost used up"


def peaks(kind: str, mib_a_minute: float, rank: int, limit: int = 80) -> dict[str, str]:
    """A rank at 50 GiB whose memory grows."""
    value = growing(mib_a_minute * 2**20, 50 * GIB)
    return {
        **one("traceml_rank_memory_peak_bytes", value, rank=str(rank), kind=kind),
        **one("traceml_rank_memory_limit_bytes", constant(limit * GIB), rank=str(rank)),
    }


CREEPS = {**state(), **score("step_memory", "MEMORY_CREEP_EARLY", 1.1, severity=0)}


def runs_out(leads_to: str, limit: str, **labels: str) -> Fired:
    who = f", rank {labels['rank']}" if labels else ""
    return Fired(
        "critical",
        f"Run demo{who}: memory runs out within 1h",
        f"The pace of the last 30m leads to {leads_to} in 1h, above the limit of {limit}. Next: "
        f"save a checkpoint while there is time; then {LEAK}",
        labels,
    )


MEMORY = (
    memory(*PRESSURE, "critical", PRESSING, FREE),
    memory(*PRESSURE, "warning", PRESSING, FREE),
    *quiet(*PRESSURE),
    memory("TraceMLMemoryCreep", "MEMORY_CREEP", "warning", "memory keeps growing", LEAK),
    *quiet("TraceMLMemoryCreep", "MEMORY_CREEP"),
    memory(
        "TraceMLMemoryImbalance",
        "IMBALANCE",
        "warning",
        "one rank uses far more memory than the others",
        "look at what only that rank holds: the length of its samples, its shard, cached tensors.",
    ),
    *quiet("TraceMLMemoryImbalance", "IMBALANCE"),
    Case(
        "TraceMLMemoryRunsOut",
        "of a device, by 512 MiB a minute; its resident set does not count",
        {
            **CREEPS,
            **peaks("allocated", 512, 1),
            **peaks("rss", 900, 1),
            **peaks("allocated", 1, 0),
        },
        (runs_out("92GiB", "80GiB", rank="1"),),
    ),
    Case(
        "TraceMLMemoryRunsOut",
        "of the CPU, which ranks share",
        {**CREEPS, **peaks("rss", 256, 0, limit=128), **peaks("rss", 256, 1, limit=128)},
        (runs_out("142GiB", "128GiB"),),
    ),
    Case("TraceMLMemoryRunsOut", "not within an hour", {**CREEPS, **peaks("allocated", 100, 1)}),
    Case(
        "TraceMLMemoryRunsOut",
        "what the sidecar does not take for growth",
        {**state(), **peaks("allocated", 512, 1)},
    ),
    Case(
        "TraceMLMemoryRunsOut",
        "ended",
        {**CREEPS, **peaks("allocated", 512, 1), **state(ENDED)},
    ),
)

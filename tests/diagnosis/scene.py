"""Runs made by hand: what each rank does in a step, and the ranks waiting for the slowest."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import Clock, Process, joined, look, make_collector, start_ranks, timed_records
from traceml.diagnosis.finding import STEP_TIME, Diagnosis
from traceml.sidecar.collector import Collector
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb

# Own work in a step of 40 ms, of which 38 are the model's.
HEALTHY: Mapping[str, float] = {
    "dataloader": 1.0,
    "h2d": 0.0,
    "forward": 12.0,
    "backward": 13.0,
    "optimizer": 13.0,
    "other": 1.0,
}
EXCHANGE_MS = 0.5

Work = Mapping[str, float]


def healthy(**instead: float) -> Work:
    """A rank's own work, some phases of another length."""
    return {**HEALTHY, **instead}


def waits(ranks: Sequence[Work], exchange: float = EXCHANGE_MS) -> list[float]:
    """How long each rank waits: for the slowest, then for the exchange."""
    own = [sum(work.values()) for work in ranks]
    return [max(own) - mine + exchange for mine in own]


def tell_steps(
    processes: Sequence[Process],
    steps: Sequence[Sequence[Work]],
    exchange: float = EXCHANGE_MS,
    first: int = 0,
) -> None:
    """Let the ranks tell these steps."""
    waited = [waits(ranks, exchange) for ranks in steps]
    for rank, process in enumerate(processes):
        parts = []
        for number, works in enumerate(steps):
            own: dict[str, Any] = {phase: works[rank].get(phase) for phase in HEALTHY}
            wait = waited[number][rank]
            parts.append(timed_records([first + number], **own, collective_wait=wait))
        process.send(joined(parts))


def run_of(
    steps: Sequence[Sequence[Work]],
    exchange: float = EXCHANGE_MS,
    policy: str = "",
    groups: Sequence[str] = (),
) -> Collector:
    """A run in which the ranks worked like that, step by step."""
    clock = Clock()
    collector = make_collector(clock, ranks_expected=len(steps[0]))
    collector.apply(pb.Entry(at=clock.now, started=pb.Started(policy=policy)))
    processes = start_ranks(collector, len(steps[0]), groups=groups)
    tell_steps(processes, steps, exchange)
    return collector


def scene(
    ranks: Sequence[Work], steps: int = 40, exchange: float = EXCHANGE_MS, policy: str = "",
    groups: Sequence[str] = (),
) -> Snapshot:  # fmt: skip
    """What is to be seen of ranks that work like that in every step."""
    return look(run_of([ranks] * steps, exchange, policy, groups))


def step_time(snapshot: Snapshot) -> Diagnosis:
    return snapshot.window_diagnoses[STEP_TIME]

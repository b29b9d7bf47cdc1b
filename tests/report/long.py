"""A run with everything in it: two ranks, a straggler for a while, evaluations, memory, GPUs."""

from functools import cache

from tests.builders import (
    GIB,
    Clock,
    end,
    gpu_sample,
    host_sample,
    joined,
    make_collector,
    start_ranks,
    tell,
    timed_records,
)
from traceml.report.document import Summary
from traceml.report.summary import summarized
from traceml.sidecar.timeline import turned
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import Records
from traceml.wire.tags import Tag

_ROUNDS, _STEPS = 20, 30


def _round(number: int, rank: int) -> Records:
    slow = 30.0 if number >= 8 else 0.0
    dataloader = 2.0 + (slow if rank == 1 else 0.0)
    wait = 4.0 + (slow if rank == 0 else 0.0)
    first = number * _STEPS
    memory = (10 + 0.2 * number + rank) * GIB
    return joined(
        [
            timed_records(
                [step],
                tags=Tag.EVAL if step % _STEPS == _STEPS - 1 else 0,
                dataloader=dataloader + step % 5 * 0.2,
                collective_wait=wait,
                resident_bytes=memory,
            )
            for step in range(first, first + _STEPS)
        ]
    )


@cache
def long_summary() -> Summary:
    """What is kept of it."""
    clock = Clock()
    collector = make_collector(clock, ranks_expected=2)
    ranks = start_ranks(collector, 2)
    for number in range(_ROUNDS):
        for rank, process in enumerate(ranks):
            beat = pb.Heartbeat(step=number, cpu_seconds=number * 2.5, resident_bytes=2**33)
            process.heartbeat = beat
            process.send(_round(number, rank))
        clock.advance(3.0)
        sample = host_sample()
        sample.gpus.extend([gpu_sample(0), gpu_sample(1)])
        tell(collector, sampled=sample)
        diagnosed = turned(collector.snapshot())
        if diagnosed is not None:
            tell(collector, diagnosed=diagnosed)
    for process in ranks:
        process.goodbye()
    end(collector, "completed", 0)
    return summarized(collector.snapshot())

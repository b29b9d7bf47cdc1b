"""What the fuzzer begins with: files as the code itself writes them."""

import json
from collections.abc import Iterator

import numpy as np

from tests.builders import (
    STARTED_AT,
    Clock,
    golden_collector,
    gpu_sample,
    host_sample,
    make_identity,
    timed_records,
)
from tests.fuzz.packing import listed, opened
from tests.report.compare.made import Workload, made_summary
from tests.report.long import long_summary
from traceml.report.typed import plain
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode
from traceml.wire.frames import framed


def entries(ranks: int = 2, batches: int = 6) -> list[bytes]:
    """A run from its start to its end, as a journal holds it."""
    found = [pb.Entry(started=pb.Started(restarts=1, policy='{"input_warning": 0.2}'))]
    for rank in range(ranks):
        identity = make_identity(rank, ranks)
        found.append(pb.Entry(hello=pb.HelloRequest(session=f"s{rank}", identity=identity)))
    for number in range(batches):
        found += [_push(rank, number) for rank in range(ranks)]
        sample = host_sample()
        sample.gpus.extend([gpu_sample(0), gpu_sample(1)])
        found.append(pb.Entry(sampled=sample))
    found.append(pb.Entry(diagnosed=pb.Diagnosed(state="BALANCED", severity="info", rank=1)))
    found.append(pb.Entry(excused=pb.Excused(rank=1)))
    goodbye = pb.GoodbyeRequest(session="s0", heartbeat=pb.Heartbeat(step=7, notes=["a note"]))
    found += [pb.Entry(goodbye=goodbye), pb.Entry(ended=pb.Ended(state="completed", exit_code=0))]
    for number, entry in enumerate(found):
        entry.at = STARTED_AT + number
    return [entry.SerializeToString() for entry in found]


def _push(rank: int, number: int) -> pb.Entry:
    records = timed_records(range(8 * number, 8 * number + 8), tags=number == 0, forward=9.0 + rank)
    beat = pb.Heartbeat(step=8 * number, phase="forward", cpu_seconds=number, resident_bytes=2**30)
    batch = encode(records, number + 1, 8 * number)
    return pb.Entry(push=pb.PushRequest(session=f"s{rank}", heartbeat=beat, batch=batch))


def checkpoint(collector: Collector) -> bytes:
    """A checkpoint of its state."""
    return pack(capture({"at": STARTED_AT, "collector": collector.save()}))


def journals() -> Iterator[bytes]:
    """Entries."""
    yield listed(entries(2, 3))
    yield listed(entries(1, 4))
    yield listed(entries(3, 1))


def checkpoints() -> Iterator[bytes]:
    """Of a run that has hardly begun, and of one in full swing."""
    clock = Clock()
    yield opened(checkpoint(golden_collector(clock)))
    collector = golden_collector(clock)
    for entry in map(pb.Entry.FromString, entries(2, 12)[1:-3]):
        entry.at += 100
        for name in ("hello", "push"):
            if entry.WhichOneof("what") == name:
                getattr(entry, name).session += "x"
        collector.apply(entry)
    yield opened(checkpoint(collector))


def summaries() -> Iterator[bytes]:
    """Of a long run, and of a short one."""
    yield json.dumps(plain(long_summary())).encode()
    yield json.dumps(made_summary(np.random.default_rng(3), Workload(steps=24))).encode()


def files() -> Iterator[bytes]:
    """Framed entries, as they lie in files."""
    yield framed(entries(1, 2))
    yield framed([b"first", b"", b"x" * 300])[3:] + framed([b"last"])

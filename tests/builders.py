"""What tests are built from: a clock turned by hand, records, and processes that speak."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.snapshot import Exports, Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import DEVICE_TIMES, MARKED, PROTOCOL, TIMES, VALUES, Records, encode
from traceml.wire.tags import Tag

STARTED_AT = 1_700_000_000.0
GIB = float(2**30)

# A step of 43 ms, phase by phase.
TYPICAL_MS: Mapping[str, float] = {
    "dataloader": 2.0,
    "h2d": 1.0,
    "forward": 10.0,
    "backward": 20.0,
    "optimizer": 5.0,
    "collective_wait": 4.0,
    "other": 1.0,
}


# Whoever has done its work waits for the others.
_ORDER = ("other", *MARKED, "collective_wait")


@dataclass
class Clock:
    """A clock that moves when it is told to."""

    now: float = STARTED_AT

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def make_records(
    steps: Iterable[int], *, tags: int = 0, **columns: float | Sequence[float]
) -> Records:
    """Records of these steps; of the values only `columns` were measured."""
    step = np.fromiter(steps, dtype=np.int64)
    values = np.full((len(step), len(VALUES)), np.nan)
    for name, column in {"end_ns": step * 1e6, **columns}.items():
        values[:, VALUES.index(name)] = column
    return Records(step, np.full(len(step), tags, dtype=np.int64), values)


def timed_records(
    steps: Iterable[int],
    *,
    tags: int = 0,
    samples: float = 32.0,
    resident_bytes: float = GIB,
    **phases_ms: float | None,
) -> Records:
    """Records of a typical step in which some phases take another time, or were not measured.

    Steps begin ten a second, and their phases follow each other.
    """
    numbers = list(steps)
    given = {**TYPICAL_MS, **phases_ms}
    milliseconds = {phase: value for phase, value in given.items() if value is not None}
    length = sum(milliseconds.values())
    order = [phase for phase in _ORDER if phase in milliseconds]
    after = {
        f"{phase}_end_ns": sum(milliseconds[later] for later in order[place + 1 :]) * 1e6
        for place, phase in enumerate(order)
        if phase in MARKED
    }
    return make_records(
        numbers,
        tags=tags,
        step_ns=length * 1e6,
        end_ns=[(100.0 * number + length) * 1e6 for number in numbers],
        overhead_ns=8_000.0,
        resident_bytes=resident_bytes,
        samples=samples,
        elements=samples * 128,
        **{f"{phase}_ns": value * 1e6 for phase, value in milliseconds.items()},
        **after,
    )


def on_device(records: Records, **columns: float) -> Records:
    """The same records, timed on the device as well; with more columns, in nanoseconds."""
    records.values[:, len(TIMES) : len(TIMES) + len(DEVICE_TIMES)] = records.values[:, : len(TIMES)]
    for name, column in columns.items():
        records.values[:, VALUES.index(name)] = column
    return records


def joined(parts: Sequence[Records]) -> Records:
    """Records one after the other."""
    return Records(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("step", "tags", "values")
        )
    )


def make_collector(
    clock: Clock, name: str = "demo", ranks_expected: int | None = None
) -> Collector:
    """The collector of a run that began at STARTED_AT."""
    command = ("traceml", "run", "train.py")
    return Collector(RunIdentity(name, "0123abcd", command, STARTED_AT, ranks_expected), clock)


def look(collector: Collector) -> Snapshot:
    """The run as the collector sees it now."""
    return collector.snapshot()


def tell(collector: Collector, **what: Any) -> Any:
    """Let the collector take an entry now; returns its reply."""
    return collector.apply(pb.Entry(at=collector.clock(), **what))


def end(collector: Collector, state: str = "completed", exit_code: int | None = None) -> None:
    """The run is over."""
    tell(collector, ended=pb.Ended(state=state, exit_code=exit_code))


def make_identity(rank: int, world_size: int, attempt: int = 0) -> pb.Identity:
    """A rank of a DDP run on one node."""
    return pb.Identity(
        rank=rank,
        local_rank=rank,
        world_size=world_size,
        local_world_size=world_size,
        attempt=attempt,
        host="node-a",
        pid=1000 + rank,
        device="cpu",
        strategy="ddp" if world_size > 1 else "single",
        fingerprint="8x1024",
        memory_limit_bytes=32 * 2**30,
        torch="2.13.0",
        python="3.11.7",
        traceml="0.1.0",
    )


def hello_request(session: str, identity: pb.Identity, protocol: int = PROTOCOL) -> pb.HelloRequest:
    """The first words of a process."""
    return pb.HelloRequest(protocol=protocol, session=session, identity=identity)


def malformed_batch(sequence: int) -> pb.Batch:
    """A batch of three records, one of whose columns holds two."""
    batch = encode(make_records(range(3), step_ns=1e6, forward_ns=1e6), sequence)
    batch.forward_ns = batch.forward_ns[:8]
    return batch


@dataclass
class Process:
    """A training process as the sidecar hears it."""

    collector: Collector
    identity: pb.Identity
    session: str
    heartbeat: pb.Heartbeat = field(default_factory=pb.Heartbeat)
    sequence: int = 0

    def hello(self) -> "Process":
        tell(self.collector, hello=hello_request(self.session, self.identity))
        return self

    def beat(self) -> None:
        """Push a heartbeat and nothing else."""
        tell(self.collector, push=pb.PushRequest(session=self.session, heartbeat=self.heartbeat))

    def send(self, records: Records) -> int:
        """Push records as the next batch; returns what is acknowledged."""
        self.sequence += 1
        return self.send_batch(encode(records, self.sequence))

    def send_batch(self, batch: pb.Batch) -> int:
        request = pb.PushRequest(session=self.session, heartbeat=self.heartbeat, batch=batch)
        return int(tell(self.collector, push=request).acknowledged)

    def goodbye(self) -> None:
        request = pb.GoodbyeRequest(session=self.session, heartbeat=self.heartbeat)
        tell(self.collector, goodbye=request)


def start_ranks(
    collector: Collector, world_size: int, attempt: int = 0, groups: Sequence[str] = ()
) -> list[Process]:
    """Start every rank of a node; each has said hello. Of one group, if nothing else is said."""
    processes = [
        Process(collector, make_identity(rank, world_size, attempt), f"s{rank}.{attempt}")
        for rank in range(world_size)
    ]
    for process, group in zip(processes, groups, strict=False):
        process.identity.fingerprint = group
    return [process.hello() for process in processes]


def run_of(world_size: int, steps: int = 10, name: str = "demo") -> Snapshot:
    """A run that completed: each rank computes longer and waits less than the one before."""
    clock = Clock()
    collector = make_collector(clock, name, world_size)
    ranks = start_ranks(collector, world_size)
    for number, rank in enumerate(ranks):
        share = number / world_size
        rank.send(
            timed_records(range(steps), backward=20 + 4 * share, collective_wait=4 - 4 * share)
        )
        rank.goodbye()
    clock.advance(60.0)
    tell(collector, sampled=host_sample())
    end(collector, "completed", 0)
    return collector.snapshot()


def host_sample() -> pb.Sampled:
    """A machine without GPUs that has little to do."""
    return pb.Sampled(
        cpu_utilization_ratio=0.25, memory_used_bytes=8 * GIB, memory_size_bytes=32 * GIB
    )


def gpu_sample(index: int = 0) -> pb.Gpu:
    """A GPU that is well used."""
    return pb.Gpu(
        index=index,
        uuid=f"GPU-{index}",
        utilization_ratio=0.75,
        memory_used_bytes=10 * GIB,
        memory_size_bytes=80 * GIB,
        temperature_celsius=60.0,
        power_watts=350.0,
        power_limit_watts=700.0,
        sm_clock_hertz=1.5e9,
        sm_clock_max_hertz=2.0e9,
        ecc_corrected=3,
        ecc_uncorrected=0,
        xids=0,
    )


def golden_run() -> Snapshot:
    """What there is to see of the golden run, which is also sent elsewhere."""
    snapshot = golden_collector(Clock()).snapshot()
    exports = Exports({"metrics": 215, "traces": 1}, {"metrics": 0, "traces": 0})
    return replace(snapshot, telemetry=replace(snapshot.telemetry, exports=exports))


def golden_collector(clock: Clock) -> Collector:
    """Two ranks, one of them slow in backward, while the run is still under way.

    Two steps are warm-up, one record of rank 1 was lost, rank 0 lost some as well. Their devices
    wait for the CPU now and then, and they for each other in forward too.
    """
    collector = make_collector(clock, ranks_expected=2)
    fast, slow = start_ranks(collector, 2)
    fast.heartbeat = pb.Heartbeat(
        step=24, phase="collective_wait", cpu_seconds=12.5, resident_bytes=2**30, dropped_ring=3
    )
    slow.heartbeat = pb.Heartbeat(step=23, phase="backward", cpu_seconds=14.25)
    clock.advance(10.0)
    for rank, backward, wait in ((fast, 20.0, 14.0), (slow, 30.0, 4.0)):
        rank.send(timed_records(range(2), tags=Tag.WARMUP, forward=500.0))
        records = timed_records(range(2, 23), backward=backward, collective_wait=wait)
        rank.send(on_device(records, device_idle_ns=2e6, device_forward_wait_ns=1e6))
    fast.send(on_device(timed_records([23, 24])))
    slow.send(on_device(timed_records([24], collective_wait=1000.0, resident_bytes=1.5 * GIB)))
    sample = host_sample()
    sample.gpus.append(gpu_sample())
    tell(collector, sampled=sample)
    clock.advance(1.0)
    return collector

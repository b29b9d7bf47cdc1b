"""A run told twice: straight to a collector, and through a journal that is interrupted."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.builders import STARTED_AT, Clock, Process, make_identity, timed_records
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import Journal
from traceml.sidecar.recovery import recover
from traceml.sidecar.refusal import UnknownSessionError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import Records, encode

RUN = RunIdentity("told", "0", ("train.py",), STARTED_AT, None)
LIMIT = 8 * 2**20


@dataclass
class Store:
    """What a ledger does, one entry at a time and without a loop: write, then take."""

    folder: Path
    collector: Collector = field(default_factory=lambda: Collector(RUN))
    journal: Journal | None = None

    def open(self) -> None:
        recovered = recover(self.folder, RUN)
        assert recovered.collector is not None
        self.collector = recovered.collector
        self.journal = Journal(self.folder, LIMIT, RUN)
        self.checkpoint()

    def checkpoint(self) -> None:
        state = capture({"at": STARTED_AT, "collector": self.collector.save()})
        assert self.journal is not None
        assert self.journal.begin(pack(state))

    def tell(self, entry: pb.Entry) -> pb.PushReply | None:
        assert self.journal is not None
        self.collector.check(entry)
        if entry.WhichOneof("what") == "push":
            self.collector.strip(entry.push)
        assert self.journal.append([entry.SerializeToString()])
        reply = self.collector.apply(entry)
        return reply if isinstance(reply, pb.PushReply) else None

    def crash(self) -> None:
        """The process is gone, and with it the lock."""
        import os

        assert self.journal is not None
        self.journal.close()
        if self.journal._lock is not None:
            os.close(self.journal._lock)
        self.journal = None


@dataclass
class Teller:
    """A rank that keeps what is not acknowledged and sends it again, as a sender does."""

    rank: int
    world_size: int
    unacknowledged: list[pb.Batch] = field(default_factory=list)
    sequence: int = 0
    made: int = 0
    session: str = ""

    def __post_init__(self) -> None:
        self.session = f"session {self.rank}"

    def make(self, records: Records) -> None:
        self.sequence += 1
        self.unacknowledged.append(encode(records, self.sequence, self.made))
        self.made += len(records)

    def hello(self) -> pb.Entry:
        identity = make_identity(self.rank, self.world_size)
        request = pb.HelloRequest(protocol=1, session=self.session, identity=identity)
        return pb.Entry(at=STARTED_AT, hello=request)

    def push(self, batch: pb.Batch) -> pb.Entry:
        request = pb.PushRequest(session=self.session, heartbeat=pb.Heartbeat(), batch=batch)
        return pb.Entry(at=STARTED_AT, push=request)

    def deliver(self, store: Store) -> None:
        """Send the oldest that is not acknowledged; say hello first if asked to."""
        if not self.unacknowledged:
            return
        try:
            reply = store.tell(self.push(self.unacknowledged[0]))
        except UnknownSessionError:
            store.tell(self.hello())
            return
        assert reply is not None
        self.take(reply)

    def take(self, reply: pb.PushReply) -> None:
        while self.unacknowledged and self.unacknowledged[0].sequence <= reply.acknowledged:
            self.unacknowledged.pop(0)


def steps(first: int, count: int, rank: int) -> Records:
    """Steps whose times are whole nanoseconds, so that their sums do not depend on the order."""
    return timed_records(range(first, first + count), forward=10.0 + rank, backward=20.0 - rank)


def plain(world_size: int, told: dict[int, int], clock: Clock) -> Collector:
    """The run as it would be if every rank had just told its steps, one after the other."""
    collector = Collector(RUN, clock)
    for rank, count in told.items():
        process = Process(collector, make_identity(rank, world_size), f"session {rank}").hello()
        if count:
            process.send(steps(0, count, rank))
    return collector

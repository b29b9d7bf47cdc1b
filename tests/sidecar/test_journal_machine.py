"""Any order of send, resend, duplicate, reorder, crash and restart tells the same run."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.builders import Clock, look
from tests.sidecar.told import Store, Teller, plain, steps
from traceml.sidecar.refusal import UnknownSessionError
from traceml.wire import telemetry_pb2 as pb

ranks = st.integers(0, 2)
WORLD_SIZE = 3
MEMORY = Path("/dev/shm")  # thousands of checkpoints; how a disk behaves is tested elsewhere


class Interrupted(RuleBasedStateMachine):
    """Three ranks, a journal, and everything that can come between them."""

    @initialize()
    def begin(self) -> None:
        self.parent = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.store = Store(self.parent / "journal")
        self.store.open()
        self.tellers = [Teller(rank, WORLD_SIZE) for rank in range(WORLD_SIZE)]
        self.sent: list[pb.Entry] = []

    @property
    def is_up(self) -> bool:
        return self.store.journal is not None

    @rule(rank=ranks, count=st.integers(1, 30))
    def train(self, rank: int, count: int) -> None:
        teller = self.tellers[rank]
        teller.make(steps(teller.made, count, rank))

    @precondition(lambda self: self.is_up)
    @rule(rank=ranks, times=st.integers(1, 3))
    def deliver(self, rank: int, times: int) -> None:
        teller = self.tellers[rank]
        for _ in range(times):
            if teller.unacknowledged:
                self.sent.append(teller.push(teller.unacknowledged[0]))
            teller.deliver(self.store)

    @precondition(lambda self: self.is_up)
    @rule(rank=ranks)
    def deliver_and_lose_the_answer(self, rank: int) -> None:
        teller = self.tellers[rank]
        if teller.unacknowledged:
            self.tell_again(teller.push(teller.unacknowledged[0]))

    @precondition(lambda self: self.is_up)
    @rule(data=st.data())
    def repeat_something_old(self, data: st.DataObject) -> None:
        if self.sent:
            self.tell_again(data.draw(st.sampled_from(self.sent)))

    @precondition(lambda self: self.is_up)
    @rule(rank=ranks)
    def say_hello_again(self, rank: int) -> None:
        self.store.tell(self.tellers[rank].hello())

    @precondition(lambda self: self.is_up)
    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @precondition(lambda self: self.is_up)
    @rule(torn=st.binary(max_size=30))
    def crash(self, torn: bytes) -> None:
        """At the worst moment: the last write is only half there."""
        self.store.crash()
        newest = max(self.store.folder.glob("*.segment"))
        newest.write_bytes(newest.read_bytes() + torn)

    @precondition(lambda self: not self.is_up)
    @rule()
    def restart(self) -> None:
        self.store.open()

    def tell_again(self, entry: pb.Entry) -> None:
        copy = pb.Entry.FromString(entry.SerializeToString())  # telling it may change it
        try:
            self.store.tell(copy)
        except UnknownSessionError:
            return

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        if not self.is_up:
            self.store.open()
        for teller in self.tellers:
            self.store.tell(teller.hello())
            while teller.unacknowledged:
                teller.deliver(self.store)
        self.compare()
        self.store.crash()
        self.store.open()
        self.compare()
        self.store.crash()
        shutil.rmtree(self.parent)

    def compare(self) -> None:
        clock = Clock()
        self.store.collector.clock = clock
        told = look(self.store.collector)
        expected = look(plain(WORLD_SIZE, {of.rank: of.made for of in self.tellers}, clock))
        assert told.steps == expected.steps
        assert told.whole == expected.whole
        assert told.window == expected.window
        assert [rank.steps for rank in told.ranks] == [rank.steps for rank in expected.ranks]
        assert told.telemetry.records_dropped == {}


Interrupted.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestInterrupted = Interrupted.TestCase

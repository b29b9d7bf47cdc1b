"""What is told is written, then taken, then answered: in this order, whatever the disk does."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.builders import Clock, hello_request, look, make_collector, make_identity, timed_records
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import Journal
from traceml.sidecar.ledger import Ledger
from traceml.sidecar.recovery import recover
from traceml.sidecar.refusal import ProtocolTooNewError, UnknownSessionError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, encode


class SlowJournal(Journal):
    """A journal whose writes wait until they are let through."""

    def __init__(self, folder: Path, run: RunIdentity) -> None:
        super().__init__(folder, 8 * 2**20, run)
        self.gate = threading.Event()
        self.gate.set()
        self.groups: list[int] = []

    def append(self, entries: Sequence[bytes]) -> bool:
        self.gate.wait(10)
        self.groups.append(len(entries))
        return super().append(entries)


@pytest.fixture
def collector() -> Collector:
    return make_collector(Clock())


@pytest.fixture
def journal(tmp_path: Path, collector: Collector) -> SlowJournal:
    return SlowJournal(tmp_path / "journal", collector.run)


def during(
    collector: Collector, journal: Journal, work: Callable[[Ledger], Awaitable[None]]
) -> None:
    """Do something while a ledger is kept."""

    async def run() -> None:
        ledger = Ledger(collector, journal)
        await ledger.open()
        keeper = asyncio.create_task(ledger.keep())
        await work(ledger)
        keeper.cancel()
        await ledger.close()

    asyncio.run(run())


def hello(rank: int = 0, protocol: int = PROTOCOL) -> pb.Entry:
    return pb.Entry(hello=hello_request(f"s{rank}", make_identity(rank, 2), protocol))


def push(rank: int, step: int) -> pb.Entry:
    batch = encode(timed_records([step]), step + 1)
    return pb.Entry(push=pb.PushRequest(session=f"s{rank}", batch=batch))


def test_nothing_is_shown_or_answered_before_it_is_written(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        journal.gate.clear()
        told = asyncio.create_task(ledger.tell(hello()))
        await asyncio.sleep(0.05)
        assert not told.done()
        assert look(collector).ranks == ()
        journal.gate.set()
        assert await told == pb.HelloReply(protocol=PROTOCOL)
        assert len(look(collector).ranks) == 1

    during(collector, journal, work)


def test_what_comes_while_the_disk_is_busy_is_written_at_once(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        for rank in (0, 1):
            await ledger.tell(hello(rank))
        journal.gate.clear()
        first = asyncio.create_task(ledger.tell(push(0, 0)))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(ledger.tell(push(0, step))) for step in range(1, 30)]
        await asyncio.sleep(0.05)
        journal.gate.set()
        await asyncio.gather(first, *others)

    during(collector, journal, work)
    assert journal.groups[-2:] == [1, 29]
    assert look(collector).ranks[0].steps == 30


def test_a_request_that_is_refused_is_not_written(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        with pytest.raises(UnknownSessionError):
            await ledger.tell(push(0, 0))

    during(collector, journal, work)
    assert journal.groups == []


def test_a_refusal_that_leaves_a_note_is_written_and_told_again(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        with pytest.raises(ProtocolTooNewError):
            await ledger.tell(hello(protocol=PROTOCOL + 1))

    during(collector, journal, work)
    recovered = recover(journal.folder, None).collector
    assert recovered is not None
    assert look(recovered).notes == look(collector).notes != ()


def test_a_batch_that_was_taken_before_is_not_written_again(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        await ledger.tell(hello())
        await ledger.tell(push(0, 0))
        before = journal._written
        reply = await ledger.tell(push(0, 0))
        assert reply == pb.PushReply(acknowledged=1)
        assert journal._written - before < 60

    during(collector, journal, work)


def test_a_process_that_was_replaced_is_acknowledged_and_its_records_are_not_written(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        await ledger.tell(hello())
        again = hello()
        again.hello.session = "its successor"
        await ledger.tell(again)
        before = journal._written
        assert await ledger.tell(push(0, 0)) == pb.PushReply(acknowledged=1)
        assert journal._written - before < 60

    during(collector, journal, work)
    recovered = recover(journal.folder, None).collector
    assert recovered is not None
    for known in (collector, recovered):
        assert look(known).telemetry.records_dropped == {"superseded": 1}


def test_whoever_goes_away_while_waiting_is_no_error(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        journal.gate.clear()
        told = asyncio.create_task(ledger.tell(hello()))
        await asyncio.sleep(0.05)
        told.cancel()
        journal.gate.set()
        await ledger.tell(hello(1))

    during(collector, journal, work)
    assert len(look(collector).ranks) == 2


def test_there_is_room_for_a_share_of_the_journal_and_no_more(
    collector: Collector, journal: SlowJournal
) -> None:
    async def work(ledger: Ledger) -> None:
        assert ledger.has_room(2**20)
        assert not ledger.has_room(2**20 + 1)

    during(collector, journal, work)

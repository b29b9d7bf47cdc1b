from contextlib import suppress

import pytest

from tests.builders import (
    Clock,
    Process,
    hello_request,
    look,
    make_identity,
    start_ranks,
    timed_records,
)
from traceml.sidecar import sessions
from traceml.sidecar.collector import Collector
from traceml.sidecar.limits import MAX_LOCAL_RANKS
from traceml.sidecar.rank import SILENT_SECONDS
from traceml.sidecar.refusal import MalformedError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode


def restart(process: Process, attempt: int = 0) -> Process:
    """A new process for the same rank."""
    identity = make_identity(process.identity.rank, process.identity.world_size, attempt)
    return Process(process.collector, identity, f"{process.session}+{attempt}").hello()


def test_a_new_attempt_does_not_mix_with_the_old_one(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(10)))
    second.send(timed_records(range(8)))
    first, second = (restart(process, attempt=1) for process in (first, second))
    first.send(timed_records(range(6)))
    second.send(timed_records(range(5)))
    steps = look(collector).steps
    assert steps.completed == 8 + 5
    assert steps.incomplete == {"missing": 0, "overflow": 0, "restart": 2}


def test_a_new_attempt_may_have_another_number_of_ranks(collector: Collector) -> None:
    start_ranks(collector, 4)
    for process in start_ranks(collector, 2, attempt=1):
        process.send(timed_records(range(3)))
    assert look(collector).ranks_expected == 2
    assert look(collector).steps.completed == 3


def test_records_of_an_attempt_that_is_over_are_late(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    restart(first, attempt=1)
    second.send(timed_records(range(3)))
    assert look(collector).ranks[1].records_dropped["late"] == 3
    assert look(collector).steps.completed == 0


def test_a_script_started_again_without_elastic_is_a_new_attempt(collector: Collector) -> None:
    for process in [restart(process) for process in start_ranks(collector, 2)]:
        process.send(timed_records(range(3)))
    assert look(collector).steps.completed == 3
    assert look(collector).telemetry.records_dropped == {}


def test_ranks_align_again_after_a_start_that_only_one_of_them_survived(
    collector: Collector,
) -> None:
    first, second = start_ranks(collector, 2)
    first = restart(first)  # the second rank died before its hello
    for process in (restart(first), restart(second)):
        process.send(timed_records(range(3)))
    assert look(collector).steps.completed == 3


def test_a_process_that_was_replaced_is_acknowledged_and_ignored(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    new = restart(old)
    new.send(timed_records(range(2)))
    assert old.send(timed_records(range(7))) == 1
    old.goodbye()
    rank = look(collector).ranks[0]
    assert (rank.records_received, rank.parted) == (2, False)
    assert look(collector).steps.completed == 2


def train(process: Process, first: int, steps: int) -> None:
    """Make steps, and tell of them as a sender does."""
    process.heartbeat = pb.Heartbeat(step=first + steps)
    process.send(timed_records(range(first, first + steps)))


def test_what_a_process_sends_that_goes_on_beside_its_successor_is_counted_and_told(
    collector: Collector,
) -> None:
    (old,) = start_ranks(collector, 1)
    train(old, 0, 10)
    new = restart(old)
    for first in range(10, 40, 10):
        train(old, first, 10)
        train(new, first - 10, 10)
    snapshot = look(collector)
    assert snapshot.steps.completed == 10 + 30
    assert snapshot.telemetry.records_dropped == {"superseded": 30}
    (note,) = snapshot.notes
    assert "More than one process reported as rank 0 at the same time" in note
    assert "30 records of others were dropped" in note


def test_the_last_batch_of_a_process_that_was_restarted_is_counted_without_alarm(
    collector: Collector,
) -> None:
    (old,) = start_ranks(collector, 1)
    train(old, 0, 10)
    new = restart(old)
    train(old, 10, 2)
    old.beat()
    old.goodbye()
    train(new, 0, 5)
    assert look(collector).telemetry.records_dropped == {"superseded": 2}
    assert look(collector).notes == ()


def test_a_batch_of_a_replaced_process_is_counted_once_however_often_it_is_sent(
    collector: Collector,
) -> None:
    (old,) = start_ranks(collector, 1)
    restart(old)
    batch = encode(timed_records(range(7)), 1)
    assert [old.send_batch(batch) for _ in range(3)] == [1, 1, 1]
    assert look(collector).telemetry.records_dropped == {"superseded": 7}


def test_a_process_of_an_attempt_that_was_over_before_its_first_word_is_counted(
    collector: Collector,
) -> None:
    start_ranks(collector, 1, attempt=1)
    late = Process(collector, make_identity(1, 2), "late").hello()
    train(late, 0, 3)
    rank = look(collector).ranks[1]
    assert (rank.rank, rank.present, rank.records_dropped["superseded"]) == (1, False, 3)


def test_a_rank_that_trains_on_while_another_was_started_again_is_told(
    collector: Collector,
) -> None:
    first, second = start_ranks(collector, 2)
    restart(first)
    for step in range(0, 30, 10):
        train(second, step, 10)
    snapshot = look(collector)
    assert snapshot.telemetry.records_dropped == {"late": 30}
    (note,) = snapshot.notes
    assert "Rank 1 trained on in a process from before another rank was started again" in note


def test_a_process_that_was_replaced_cannot_take_its_rank_back(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    new = restart(old)
    old.hello()
    new.send(timed_records(range(2)))
    assert look(collector).steps.completed == 2


def test_a_new_process_counts_its_batches_from_one(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    for step in range(5):
        old.send(timed_records([step]))
    assert restart(old).send(timed_records([0])) == 1
    assert look(collector).ranks[0].records_received == 6


def test_counters_go_on_when_a_rank_comes_back(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    old.heartbeat = pb.Heartbeat(cpu_seconds=10.0, dropped_ring=3, dropped_backlog=1)
    old.send(timed_records(range(4), samples=8))
    before = look(collector).ranks[0]
    new = restart(old)
    new.heartbeat = pb.Heartbeat(cpu_seconds=2.0, dropped_ring=1)
    new.send(timed_records(range(4), samples=8))
    after = look(collector).ranks[0]
    assert (before.steps, after.steps) == (4, 8)
    assert (before.samples, after.samples) == (32, 64)
    assert (before.cpu_seconds, after.cpu_seconds) == (10.0, 12.0)
    assert after.phase_seconds["forward"] == pytest.approx(0.080)
    assert after.records_dropped == {
        "overwritten": 4,
        "backlog": 1,
        "late": 0,
        "malformed": 0,
        "unjournaled": 0,
        "superseded": 0,
    }


def test_what_was_counted_never_shrinks_while_a_rank_comes_back(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    old.heartbeat = pb.Heartbeat(dropped_ring=3)
    old.send(timed_records(range(4)))
    restart(old)
    rank = look(collector).ranks[0]
    assert (rank.records_received, rank.records_dropped["overwritten"]) == (4, 3)
    assert rank.overhead_seconds == pytest.approx(4 * 8e-6)


def test_an_attempt_that_cannot_have_been_reached_is_refused(
    collector: Collector, clock: Clock
) -> None:
    first, second = start_ranks(collector, 2)
    for attempt in (2**32 - 1, 10_001, 9_999, 100):
        with pytest.raises(MalformedError):
            hello(collector, "odd", make_identity(1, 2, attempt))
    clock.advance(1.0)
    for process in (first, second):
        process.send(timed_records(range(10)))
    assert look(collector).steps.completed == 10
    assert restart(first, attempt=1).send(timed_records(range(1))) == 1


def test_attempts_that_ended_before_their_first_step_are_passed_over(
    collector: Collector, clock: Clock
) -> None:
    start_ranks(collector, 1)
    clock.advance(100.0)
    hello(collector, "later", make_identity(0, 1, attempt=60))
    assert look(collector).ranks_reporting == 1


def test_the_first_attempt_that_is_seen_may_be_any(collector: Collector) -> None:
    hello(collector, "first", make_identity(0, 1, attempt=500))
    assert look(collector).ranks_reporting == 1


def test_there_are_no_more_ranks_than_the_node_has(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    refused = 0
    for number in range(2, 2_002):
        identity = make_identity(number, 100_000)
        identity.local_rank, identity.local_world_size = 0, 2
        try:
            hello(collector, f"odd {number}", identity)
        except MalformedError:
            refused += 1
    assert refused == 2_000
    for process in (first, second):
        process.send(timed_records(range(10)))
    snapshot = look(collector)
    assert [rank.rank for rank in snapshot.ranks] == [0, 1]
    assert snapshot.steps.completed == 10


def test_whoever_claims_a_larger_node_does_not_fill_the_memory(collector: Collector) -> None:
    start_ranks(collector, 2)
    for number in range(2, 1_500):
        identity = make_identity(number, 100_000)
        identity.local_rank, identity.local_world_size = 0, MAX_LOCAL_RANKS
        with suppress(MalformedError):
            hello(collector, f"odd {number}", identity)
    assert len(collector.ranks) == MAX_LOCAL_RANKS


def test_ranks_of_all_attempts_together_are_bounded(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_KEPT_RANKS", 20)
    for attempt in range(6):
        for local in range(8):
            identity = make_identity(attempt * 8 + local, 100, attempt)
            identity.local_rank, identity.local_world_size = local, 8
            with suppress(MalformedError):
                hello(collector, f"{attempt}.{local}", identity)
    assert len(collector.ranks) == 20
    hello(collector, "of an old number", make_identity(7, 8, attempt=6))
    assert look(collector).ranks_reporting == 1


def test_ranks_that_are_numbered_anew_are_refused_only_while_the_old_ones_are_there(
    collector: Collector, clock: Clock
) -> None:
    """Torchelastic does so without counting it when nodes come or go."""
    start_ranks(collector, 2)
    identity = make_identity(2, 4)
    identity.local_rank, identity.local_world_size = 0, 2
    with pytest.raises(MalformedError, match="rank 2 besides all that this node has"):
        hello(collector, "new", identity)
    clock.advance(SILENT_SECONDS)
    process = Process(collector, identity, "new").hello()
    other = make_identity(3, 4)
    other.local_rank, other.local_world_size = 1, 2
    for each in (process, Process(collector, other, "other").hello()):
        each.send(timed_records(range(10)))
    snapshot = look(collector)
    assert snapshot.steps.completed == 10
    assert [rank.rank for rank in snapshot.ranks if rank.reporting] == [2, 3]


def hello(collector: Collector, session: str, identity: pb.Identity) -> None:
    """What a ledger does with it."""
    entry = pb.Entry(at=collector.clock(), hello=hello_request(session, identity))
    collector.check(entry)
    collector.apply(entry)

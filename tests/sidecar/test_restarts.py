import pytest

from tests.builders import (
    Process,
    look,
    make_identity,
    start_ranks,
    timed_records,
)
from traceml.sidecar.collector import Collector
from traceml.wire import telemetry_pb2 as pb


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
    }


def test_what_was_counted_never_shrinks_while_a_rank_comes_back(collector: Collector) -> None:
    (old,) = start_ranks(collector, 1)
    old.heartbeat = pb.Heartbeat(dropped_ring=3)
    old.send(timed_records(range(4)))
    restart(old)
    rank = look(collector).ranks[0]
    assert (rank.records_received, rank.records_dropped["overwritten"]) == (4, 3)
    assert rank.overhead_seconds == pytest.approx(4 * 8e-6)

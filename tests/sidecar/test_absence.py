"""Ranks that are not there are named, and not waited for in vain."""

import pytest

from tests.builders import (
    Clock,
    Process,
    end,
    look,
    make_identity,
    start_ranks,
    tell,
    timed_records,
)
from traceml.sidecar.absence import NEVER_SECONDS
from traceml.sidecar.collector import Collector
from traceml.sidecar.rank import SILENT_SECONDS
from traceml.snapshot import Absence
from traceml.wire import telemetry_pb2 as pb


def excuse_overdue(collector: Collector) -> list[int]:
    """What the sidecar does at each tick."""
    late = collector.overdue()
    for rank in late:
        tell(collector, excused=pb.Excused(rank=rank))
    return late


def test_nobody_is_absent_while_all_report(collector: Collector) -> None:
    start_ranks(collector, 2)
    assert look(collector).absent == ()


def test_a_rank_that_fell_silent_is_named_with_its_last_step_and_phase(
    collector: Collector, clock: Clock
) -> None:
    present, silent = start_ranks(collector, 2)
    silent.heartbeat = pb.Heartbeat(step=37, phase="backward")
    silent.beat()
    clock.advance(SILENT_SECONDS + 1)
    present.beat()
    assert look(collector).absent == (Absence(1, 37, "backward", SILENT_SECONDS + 1),)
    assert look(collector).ranks_reporting == 1


def test_a_rank_that_never_spoke_is_named(collector: Collector, clock: Clock) -> None:
    present = Process(collector, make_identity(0, 2), "s").hello()
    assert look(collector).absent == ()  # it may still be starting
    clock.advance(SILENT_SECONDS)
    present.beat()
    assert look(collector).absent == (Absence(1, None, "", SILENT_SECONDS),)


def test_on_a_later_node_the_rank_that_never_spoke_has_its_own_number(
    collector: Collector, clock: Clock
) -> None:
    identity = make_identity(5, 2)
    identity.local_rank, identity.world_size = 1, 8
    process = Process(collector, identity, "s").hello()
    clock.advance(SILENT_SECONDS)
    process.beat()
    assert [absence.rank for absence in look(collector).absent] == [4]


def test_a_rank_that_said_goodbye_is_not_absent(collector: Collector, clock: Clock) -> None:
    present, gone = start_ranks(collector, 2)
    gone.goodbye()
    clock.advance(SILENT_SECONDS + 1)
    present.beat()
    assert look(collector).absent == ()


def test_who_was_there_when_the_run_ended_does_not_become_absent_afterwards(
    collector: Collector, clock: Clock
) -> None:
    start_ranks(collector, 2)
    end(collector, "failed", 1)
    clock.advance(3600)
    assert look(collector).absent == ()


def test_a_rank_that_all_wait_for_is_not_excused(collector: Collector, clock: Clock) -> None:
    waiting, stopped = start_ranks(collector, 2)
    waiting.send(timed_records(range(300)))
    stopped.send(timed_records(range(50)))
    for _ in range(60):  # the other one is blocked in the exchange, and says so each second
        clock.advance(1.0)
        waiting.beat()
        assert excuse_overdue(collector) == []
    stopped.send(timed_records(range(50, 300)))
    assert look(collector).steps.completed == 300
    assert look(collector).telemetry.records_dropped == {}


def test_when_others_go_on_without_a_rank_they_are_compared_without_it(
    collector: Collector, clock: Clock
) -> None:
    first, second, dead = start_ranks(collector, 3)
    for rank in (first, second, dead):
        rank.send(timed_records(range(10)))
    for step in range(10, 40):
        clock.advance(1.0)
        for rank in (first, second):
            rank.send(timed_records([step]))
        excuse_overdue(collector)
    snapshot = look(collector)
    assert (snapshot.steps.completed, sum(snapshot.steps.incomplete.values())) == (40, 0)
    assert set(snapshot.window.ranks) == {0, 1}
    assert [absence.rank for absence in snapshot.absent] == [2]
    assert snapshot.ranks_expected == 3  # it is still missing


def test_a_rank_that_comes_back_is_waited_for_again(collector: Collector, clock: Clock) -> None:
    stayed, back = start_ranks(collector, 2)
    for step in range(30):
        clock.advance(1.0)
        stayed.send(timed_records([step]))
        excuse_overdue(collector)
    assert look(collector).steps.completed == 30
    back.send(timed_records(range(35)))  # 0 to 29 are over
    assert look(collector).ranks[1].records_dropped["late"] == 30
    stayed.send(timed_records(range(30, 40)))
    assert look(collector).steps.completed == 35
    back.send(timed_records(range(35, 40)))
    assert look(collector).steps.completed == 40
    assert set(look(collector).window.ranks) == {0, 1}


def test_a_rank_that_never_came_is_excused_after_a_longer_while(
    collector: Collector, clock: Clock
) -> None:
    alone = Process(collector, make_identity(0, 2), "s").hello()
    excused = []
    for step in range(int(NEVER_SECONDS) + 5):
        clock.advance(1.0)
        alone.send(timed_records([step]))
        excused += excuse_overdue(collector)
    assert excused == [1]
    assert look(collector).steps.completed == int(NEVER_SECONDS) + 5


def test_a_rank_that_comes_late_is_compared_from_its_first_step(
    collector: Collector, clock: Clock
) -> None:
    early = Process(collector, make_identity(0, 2), "a").hello()
    for step in range(30):
        clock.advance(1.0)
        early.send(timed_records([step]))
        assert excuse_overdue(collector) == []
    late = Process(collector, make_identity(1, 2), "b").hello()
    late.send(timed_records(range(30)))
    assert look(collector).steps.completed == 30


def test_time_in_which_the_sidecar_itself_was_away_makes_nobody_silent(
    collector: Collector, clock: Clock
) -> None:
    start_ranks(collector, 2)
    clock.advance(30.0)
    collector.forgive(30.0)
    assert look(collector).ranks_reporting == 2


def test_a_sidecar_that_starts_again_gives_every_rank_the_time_to_come_back(
    collector: Collector, clock: Clock
) -> None:
    start_ranks(collector, 2)
    clock.advance(30.0)
    tell(collector, started=pb.Started())
    assert look(collector).ranks_reporting == 2


@pytest.mark.parametrize("parted", [False, True])
def test_a_rank_that_a_new_attempt_left_out_is_neither_there_nor_missing(
    collector: Collector, clock: Clock, parted: bool
) -> None:
    first = start_ranks(collector, 3)
    if parted:
        for rank in first:
            rank.goodbye()
    start_ranks(collector, 2, attempt=1)
    snapshot = look(collector)
    assert (snapshot.ranks_expected, snapshot.ranks_reporting, snapshot.absent) == (2, 2, ())
    assert [rank.present for rank in snapshot.ranks] == [True, True, False]
    assert snapshot.run.world_size == 2

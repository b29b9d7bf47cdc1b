"""A run that stands still: who is waited for."""

import pytest

from tests.builders import Clock, Process, end, look, make_collector, start_ranks
from tests.diagnosis.scene import healthy, step_time, tell_steps
from traceml.diagnosis.finding import Finding
from traceml.sidecar.collector import Collector
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.tags import Tag

RANKS = 3
PATIENCE = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Collector:
    return make_collector(clock, ranks_expected=RANKS)


@pytest.fixture
def processes(collector: Collector) -> list[Process]:
    processes = start_ranks(collector, RANKS)
    tell_steps(processes, [[healthy()] * RANKS] * 30)
    return processes


def beat(processes: list[Process], phases: dict[int, str], tags: int = 0) -> None:
    """The ranks are in these phases of step 30; those not named say nothing."""
    for rank, phase in phases.items():
        processes[rank].heartbeat = pb.Heartbeat(step=30, phase=phase, tags=tags)
        processes[rank].beat()


def found(collector: Collector) -> Finding:
    return step_time(look(collector)).primary


def test_the_rank_that_does_not_wait_itself_is_named(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    clock.advance(PATIENCE)
    beat(processes, {0: "collective_wait", 1: "forward", 2: "collective_wait"})
    stalled = found(collector)
    assert (stalled.state, stalled.rank, stalled.phase) == ("STALLED", 1, "forward")
    assert stalled.severity == "critical"
    assert "step 30" in stalled.summary


def test_a_rank_that_fell_silent_is_named_before_all_others(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    beat(processes, {2: "dataloader"})
    clock.advance(PATIENCE)
    beat(processes, {0: "collective_wait", 1: "forward"})
    stalled = found(collector)
    assert (stalled.state, stalled.rank, stalled.phase) == ("STALLED", 2, "dataloader")


def test_where_all_wait_no_rank_is_named(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    clock.advance(PATIENCE)
    beat(processes, dict.fromkeys(range(RANKS), "collective_wait"))
    stalled = found(collector)
    assert (stalled.state, stalled.rank, stalled.phase) == ("STALLED", None, "collective_wait")


def test_several_that_do_not_wait_make_it_unsure(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    clock.advance(PATIENCE)
    beat(processes, {0: "collective_wait", 1: "forward", 2: "backward"})
    assert found(collector).confidence == "low"


def test_it_takes_its_time(collector: Collector, processes: list[Process], clock: Clock) -> None:
    clock.advance(PATIENCE - 1)
    beat(processes, {0: "collective_wait", 1: "forward", 2: "collective_wait"})
    assert found(collector).state != "STALLED"
    assert 0.9 < step_time(look(collector)).scores["STALLED"] < 1


@pytest.mark.parametrize("tag", [Tag.EVAL, Tag.CHECKPOINT, Tag.COMPILE])
def test_an_evaluation_or_the_like_may_take_as_long_as_it_wants(
    collector: Collector, processes: list[Process], clock: Clock, tag: Tag
) -> None:
    clock.advance(10 * PATIENCE)
    beat(processes, dict.fromkeys(range(RANKS), "forward"), tags=tag)
    assert found(collector).state != "STALLED"


def test_it_is_over_with_the_next_step(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    clock.advance(PATIENCE)
    tell_steps(processes, [[healthy()] * RANKS], first=30 + 10 * int(PATIENCE))
    assert found(collector).state != "STALLED"


def test_a_run_that_is_over_stands_still_for_good_reason(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    for process in processes:
        process.goodbye()
    clock.advance(PATIENCE)
    assert found(collector).state != "STALLED"
    end(collector, "completed", 0)
    assert found(collector).state != "STALLED"


def test_a_run_that_was_interrupted_while_it_stood_still_says_so(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    clock.advance(PATIENCE)
    beat(processes, {0: "collective_wait", 1: "forward", 2: "collective_wait"})
    end(collector, "interrupted")
    assert look(collector).whole_diagnoses["step_time"].primary.rank == 1


def test_before_the_first_step_nothing_is_said(collector: Collector, clock: Clock) -> None:
    start_ranks(collector, RANKS)
    clock.advance(10 * PATIENCE)
    assert found(collector).state == "NO_DATA"


def test_of_several_that_fell_silent_the_one_that_waited_is_not_to_blame(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    beat(processes, {0: "collective_wait", 1: "forward", 2: "collective_wait"})
    clock.advance(PATIENCE)
    stalled = found(collector)
    assert (stalled.state, stalled.rank, stalled.phase) == ("STALLED", 1, "forward")


def test_a_step_that_is_told_late_does_not_hide_that_the_run_stood_still(
    collector: Collector, processes: list[Process], clock: Clock
) -> None:
    """It ended long before; the process told it when it was interrupted."""
    clock.advance(PATIENCE + 1)
    tell_steps(processes, [[healthy()] * RANKS], first=30)
    assert found(collector).state == "STALLED"

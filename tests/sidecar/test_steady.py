"""Who is silent is told by time that passes, not by the system's clock, which anybody may set."""

from dataclasses import dataclass, field

import pytest

from tests.builders import Clock, end, look, make_collector, start_ranks, timed_records
from traceml.sidecar.collector import Collector
from traceml.sidecar.rank import SILENT_SECONDS
from traceml.sidecar.steady import SteadyClock

HOUR = 3600.0


@dataclass
class Machine:
    """Its two clocks: one that anybody may set, and one that counts seconds since it was on."""

    wall: Clock = field(default_factory=Clock)
    monotonic: Clock = field(default_factory=lambda: Clock(500.0))

    def pass_seconds(self, seconds: float) -> None:
        self.wall.advance(seconds)
        self.monotonic.advance(seconds)

    def clock(self, not_before: float = 0.0) -> SteadyClock:
        return SteadyClock(not_before, self.wall, self.monotonic)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def collector(machine: Machine) -> Collector:
    collector = make_collector(machine.wall)
    collector.clock = machine.clock()
    return collector


@pytest.mark.parametrize("set_by", [HOUR, -HOUR])
def test_a_rank_that_reports_is_there_whatever_the_clock_is_set_to(
    machine: Machine, collector: Collector, set_by: float
) -> None:
    working, other = start_ranks(collector, 2)
    machine.wall.advance(set_by)
    assert look(collector).ranks_reporting == 2
    working.send(timed_records(range(5)))
    assert collector.overdue() == []
    machine.pass_seconds(SILENT_SECONDS - 1)
    other.beat()
    assert look(collector).ranks_reporting == 2


@pytest.mark.parametrize("set_by", [HOUR, -HOUR])
def test_a_rank_that_is_dead_is_missed_whatever_the_clock_is_set_to(
    machine: Machine, collector: Collector, set_by: float
) -> None:
    working, _ = start_ranks(collector, 2)
    machine.wall.advance(set_by)
    machine.pass_seconds(SILENT_SECONDS)
    working.send(timed_records(range(5)))
    assert [absence.rank for absence in look(collector).absent] == [1]
    assert collector.overdue() == [1]


@pytest.mark.parametrize("set_by", [HOUR, -HOUR])
def test_a_run_is_as_long_as_it_took(machine: Machine, collector: Collector, set_by: float) -> None:
    machine.pass_seconds(20.0)
    machine.wall.advance(set_by)
    machine.pass_seconds(10.0)
    end(collector)
    assert look(collector).run.duration_seconds == 30.0


def test_after_a_restart_time_goes_on_from_where_it_was(machine: Machine) -> None:
    first = machine.clock()
    machine.pass_seconds(50.0)
    until = first()
    machine.wall.advance(-HOUR)
    machine.pass_seconds(5.0)
    assert machine.clock(until)() == until
    machine.wall.advance(2 * HOUR)
    assert machine.clock(until)() == machine.wall()


def test_how_far_the_system_s_clock_was_set_is_known(machine: Machine) -> None:
    clock = machine.clock()
    machine.wall.advance(0.3)  # it drifts
    assert clock.shift_seconds() == 0.0
    machine.wall.advance(HOUR)
    assert clock.shift_seconds() == HOUR + 0.3

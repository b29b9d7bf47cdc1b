import pytest

from tests.builders import (
    Clock,
    Process,
    end,
    look,
    start_ranks,
    tell,
    timed_records,
)
from traceml.sidecar.collector import Collector
from traceml.sidecar.rank import SILENT_SECONDS
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode


def test_the_last_heartbeat_tells_where_a_rank_is(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.heartbeat = pb.Heartbeat(step=17, phase="backward", resident_bytes=123)
    process.beat()
    rank = look(collector).ranks[0]
    assert (rank.step, rank.phase, rank.resident_bytes) == (17, "backward", 123)


def test_what_no_heartbeat_has_told_is_absent(collector: Collector) -> None:
    start_ranks(collector, 1)
    rank = look(collector).ranks[0]
    assert (rank.cpu_seconds, rank.resident_bytes) == (None, None)
    assert rank.samples is None
    assert rank.phase_seconds == {}


def test_records_without_a_heartbeat_leave_the_last_one_standing(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.heartbeat = pb.Heartbeat(step=17, cpu_seconds=9.0, dropped_ring=3)
    process.beat()
    tell(
        collector, push=pb.PushRequest(session=process.session, batch=encode(timed_records([0]), 1))
    )
    rank = look(collector).ranks[0]
    assert (rank.step, rank.cpu_seconds) == (17, 9.0)
    assert rank.records_dropped["overwritten"] == 3


def test_swallowed_errors_are_noted_with_their_rank(collector: Collector) -> None:
    process = start_ranks(collector, 2)[1]
    process.heartbeat = pb.Heartbeat(faults=3)
    process.beat()
    (note,) = look(collector).notes
    assert note.startswith("rank 1: 3 errors inside TraceML's own hooks")


def test_a_rank_that_falls_silent_is_not_reporting(collector: Collector, clock: Clock) -> None:
    silent, alive = start_ranks(collector, 2)
    silent.beat()
    clock.advance(SILENT_SECONDS - 0.1)
    assert look(collector).ranks_reporting == 2
    alive.beat()
    clock.advance(0.2)
    snapshot = look(collector)
    assert [rank.reporting for rank in snapshot.ranks] == [False, True]
    assert (snapshot.ranks_expected, snapshot.ranks_reporting) == (2, 1)
    assert collector.is_anyone_reporting()


def test_a_silent_rank_reports_again_with_its_next_heartbeat(
    collector: Collector, clock: Clock
) -> None:
    (process,) = start_ranks(collector, 1)
    clock.advance(60.0)
    assert not collector.is_anyone_reporting()
    process.beat()
    assert collector.is_anyone_reporting()


def beat(process: Process, phase: str, step: int = 30, device_phase: str = "") -> None:
    process.heartbeat = pb.Heartbeat(step=step, phase=phase, device_phase=device_phase)
    process.beat()


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_rank_that_is_told_to_end_was_where_it_hung(
    collector: Collector, clock: Clock, says_goodbye: bool
) -> None:
    (process,) = start_ranks(collector, 1)
    beat(process, "optimizer", step=29)
    beat(process, "dataloader")
    clock.advance(5.0)
    beat(process, "dataloader")
    beat(process, "other")  # it leaves the loader with an exception
    clock.advance(1.0)
    assert look(collector).ranks[0].phase == "other"
    beat(process, "other")
    if says_goodbye:
        process.goodbye()
    end(collector, "interrupted")
    assert look(collector).ranks[0].phase == "dataloader"


def test_a_rank_that_goes_on_was_where_it_ended(collector: Collector, clock: Clock) -> None:
    (process,) = start_ranks(collector, 1)
    beat(process, "dataloader")
    clock.advance(5.0)
    beat(process, "forward")
    clock.advance(6.0)
    process.goodbye()
    assert look(collector).ranks[0].phase == "forward"
    beat(process, "optimizer", step=31)
    process.goodbye()
    assert look(collector).ranks[0].phase == "optimizer"


def test_the_use_of_the_cpu_is_told_over_the_last_half_minute_by_a_few_marks(
    collector: Collector, clock: Clock
) -> None:
    (process,) = start_ranks(collector, 1)
    for second in range(200):
        used = 100.0 + 0.5 * second if second < 150 else 25.0 + second
        process.heartbeat = pb.Heartbeat(step=second, cpu_seconds=used)
        process.beat()
        clock.advance(1.0)
        if second == 149:
            assert look(collector).ranks[0].cpu_cores == pytest.approx(0.5)
    assert look(collector).ranks[0].cpu_cores == pytest.approx(1.0)
    (rank,) = collector._sessions.ranks.values()
    assert len(rank._cpu_marks) < 10


def test_a_heartbeat_without_cpu_seconds_leaves_the_last_ones_standing(
    collector: Collector, clock: Clock
) -> None:
    (process,) = start_ranks(collector, 1)
    for used in (10.0, None, 14.0, None):
        process.heartbeat = pb.Heartbeat(step=1, cpu_seconds=used)
        process.beat()
        clock.advance(1.0)
    rank = look(collector).ranks[0]
    assert (rank.cpu_seconds, rank.cpu_cores) == (14.0, 2.0)


def test_cpu_seconds_that_fall_are_no_use_of_the_cpu(collector: Collector, clock: Clock) -> None:
    (process,) = start_ranks(collector, 1)
    for used in (10.0, 5.0):
        process.heartbeat = pb.Heartbeat(step=1, cpu_seconds=used)
        process.beat()
        clock.advance(1.0)
    rank = look(collector).ranks[0]
    assert (rank.cpu_seconds, rank.cpu_cores) == (5.0, None)


def test_a_rank_that_waits_for_its_device_was_where_the_device_is(
    collector: Collector, clock: Clock
) -> None:
    """The device is asked only after a while, and may be asked but once before the end."""
    (process,) = start_ranks(collector, 1)
    beat(process, "other")
    clock.advance(3.0)
    beat(process, "other", device_phase="collective_wait")
    clock.advance(1.0)
    beat(process, "other", device_phase="collective_wait")
    assert look(collector).ranks[0].phase == "collective_wait"
    end(collector, "interrupted")
    assert look(collector).ranks[0].phase == "collective_wait"


def test_a_device_that_goes_on_was_where_it_was_for_longest(
    collector: Collector, clock: Clock
) -> None:
    (process,) = start_ranks(collector, 1)
    beat(process, "other")
    beat(process, "other", device_phase="forward")
    clock.advance(9.0)
    beat(process, "other", device_phase="collective_wait")
    clock.advance(1.0)
    beat(process, "other", device_phase="collective_wait")
    end(collector, "interrupted")
    assert look(collector).ranks[0].phase == "forward"

"""Where ranks waited and how long their devices idled, in a window and over the whole run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import make_records, on_device, timed_records
from tests.sidecar.scopes import MS, side_by_side
from traceml.sidecar.whole import WholeRun
from traceml.sidecar.window import Window
from traceml.snapshot import RankTimes, Statistics
from traceml.wire.columns import PLACES, VALUES, WAITS, Records

amounts = st.floats(0, 1e10, width=32)


def window_of(*ranks: Records) -> Statistics:
    window = Window()
    window.add(tuple(range(len(ranks))), ("",) * len(ranks), *side_by_side(*ranks))
    return window.statistics()[0]


def whole_of(*ranks: Records, at_once: int = 1000) -> Statistics:
    whole = WholeRun()
    values, flags = side_by_side(*ranks)
    for begin in range(0, len(values), at_once):
        part = slice(begin, begin + at_once)
        whole.add(tuple(range(len(ranks))), ("",) * len(ranks), values[part], flags[part])
    return whole.statistics()


def alone(*ranks: Records) -> RankTimes:
    return window_of(*ranks).ranks[0]


def waiting(steps: int = 4, **waits_ns: float) -> Records:
    records = timed_records(range(steps), collective_wait=20.0)
    for name, column in waits_ns.items():
        records.values[:, VALUES.index(name)] = column
    return records


@st.composite
def any_waits(draw: st.DrawFn) -> Records:
    """Steps with any waits in any places, each of which may be unknown."""
    steps = draw(st.integers(1, 20))
    known = st.lists(amounts | st.just(float("nan")), min_size=steps, max_size=steps)
    lengths = st.lists(st.floats(1e6, 1e10), min_size=steps, max_size=steps)
    records = make_records(range(steps), step_ns=draw(lengths))
    for name in (*WAITS, "device_idle_ns"):
        records.values[:, VALUES.index(name)] = draw(known)
    parts = records.values[:, [VALUES.index(name) for name in WAITS]]
    waits = np.nansum(parts, axis=1) + draw(known)
    records.values[:, VALUES.index("collective_wait_ns")] = waits
    return on_device(records)


@settings(deadline=None)
@given(any_waits())
def test_places_add_up_to_all_waiting(records: Records) -> None:
    for statistics in (window_of(records), whole_of(records)):
        times = statistics.ranks[0]
        waited = times.phases.get("collective_wait")
        if waited is None:
            assert times.wait_seconds == {}
        else:
            assert sum(times.wait_seconds.values()) == pytest.approx(waited, rel=1e-9, abs=1e-15)
            assert min(times.wait_seconds.values()) >= 0
            assert "backward" in times.wait_seconds
        assert times.idle_ratio is None or 0 <= times.idle_ratio <= 1


@settings(deadline=None)
@given(any_waits(), st.integers(1, 7))
def test_the_whole_run_shares_out_as_a_window_of_the_same_steps(
    records: Records, at_once: int
) -> None:
    lately, so_far = window_of(records).ranks[0], whole_of(records, at_once=at_once).ranks[0]
    assert so_far.wait_seconds.keys() == lately.wait_seconds.keys()
    for place, seconds in so_far.wait_seconds.items():
        share = seconds * lately.phases["collective_wait"]
        assert share == pytest.approx(lately.wait_seconds[place] * so_far.phases["collective_wait"])
    assert so_far.idle_ratio == pytest.approx(lately.idle_ratio)


def test_what_is_not_told_of_a_wait_was_in_backward() -> None:
    assert alone(waiting()).wait_seconds == {"backward": pytest.approx(0.020)}


def test_each_place_has_its_part_in_their_order() -> None:
    times = alone(waiting(forward_wait_ns=8 * MS, optimizer_wait_ns=5 * MS, other_wait_ns=1 * MS))
    assert tuple(times.wait_seconds) == PLACES
    assert list(times.wait_seconds.values()) == pytest.approx([0.008, 0.006, 0.005, 0.001])


def test_a_place_that_was_waited_in_before_stays_with_nothing() -> None:
    waits = alone(waiting(forward_wait_ns=0.0)).wait_seconds
    assert waits == {"forward": 0.0, "backward": pytest.approx(0.020)}


def test_parts_that_exceed_all_waiting_are_cut_down_to_it() -> None:
    waits = alone(waiting(forward_wait_ns=20 * MS, other_wait_ns=20 * MS)).wait_seconds
    assert waits == {"forward": pytest.approx(0.010), "backward": 0.0, "other": pytest.approx(0.01)}


def test_where_waits_are_not_measured_there_are_no_places() -> None:
    records = timed_records(range(4), collective_wait=None)
    records.values[:, VALUES.index("forward_wait_ns")] = 5 * MS
    assert alone(records).wait_seconds == {}


def test_one_long_wait_does_not_move_the_waiting_elsewhere() -> None:
    records = waiting(40, forward_wait_ns=5 * MS)
    for name in ("collective_wait_ns", "step_ns"):
        records.values[0, VALUES.index(name)] = 10_000 * MS
    waits = alone(records).wait_seconds
    assert sum(waits.values()) == pytest.approx(0.020)
    assert waits["forward"] == pytest.approx(0.005, rel=0.1)


def test_a_device_idles_a_share_of_the_steps_in_which_that_is_known() -> None:
    records = on_device(timed_records(range(4)), device_idle_ns=20 * MS)
    records.values[0, VALUES.index("device_idle_ns")] = np.nan
    times = alone(records)
    assert times.idle_seconds == pytest.approx(0.020)
    assert times.idle_ratio == pytest.approx(20 / 43)


def test_idling_counts_only_where_the_step_is_told_on_the_devices_clock() -> None:
    timed = on_device(timed_records(range(4)), device_idle_ns=20 * MS)
    untimed = timed_records(range(4))
    untimed.values[:, VALUES.index("device_idle_ns")] = 20 * MS
    assert alone(untimed).idle_seconds is None
    assert [times.idle_seconds for times in window_of(timed, untimed).ranks.values()] == [None] * 2


def test_a_device_that_never_idled_is_told_from_one_that_nobody_looked_at() -> None:
    assert alone(on_device(timed_records(range(4)), device_idle_ns=0.0)).idle_seconds == 0.0
    assert alone(on_device(timed_records(range(4)))).idle_seconds is None

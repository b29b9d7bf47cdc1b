import numpy as np
import pytest

from tests.builders import make_records, timed_records
from tests.sidecar.scopes import MS, lasting, side_by_side
from traceml.sidecar.window import WINDOW_STEPS, Window

PAIR = ("", "")


def step_seconds(window: Window) -> dict[int, float]:
    return {rank: of.step_seconds for rank, of in window.statistics()[0].ranks.items()}


def test_an_empty_window_says_nothing() -> None:
    result = Window().statistics()[0]
    assert (result.steps, result.step, result.memory) == (0, None, {})
    assert not result.phases
    assert not result.ranks


def test_the_window_is_of_the_last_100_steps() -> None:
    window = Window()
    window.add((0,), ("",), *lasting([1000.0] * 50))
    window.add((0,), ("",), *lasting([10.0] * WINDOW_STEPS))
    assert WINDOW_STEPS == 100
    assert window.statistics()[0].steps == 100
    assert step_seconds(window) == {0: pytest.approx(0.010)}


def test_more_steps_at_once_than_fit_leave_the_last_ones() -> None:
    window = Window(length=3)
    window.add((0,), ("",), *lasting([900.0, 900.0, 1.0, 2.0, 3.0]))
    assert step_seconds(window) == {0: pytest.approx(0.002)}


def test_steps_that_come_one_by_one_count_as_those_that_come_together() -> None:
    one_by_one, together = Window(length=4), Window(length=4)
    milliseconds = [5.0, 7.0, 11.0, 13.0, 17.0, 19.0]
    for value in milliseconds:
        one_by_one.add((0, 1), PAIR, *lasting([value], [2 * value]))
    together.add((0, 1), PAIR, *lasting(milliseconds, [2 * value for value in milliseconds]))
    assert one_by_one.statistics() == together.statistics()


def test_sums_over_the_window_are_the_same_to_the_last_bit_however_steps_came() -> None:
    values, on_device = side_by_side(timed_records(range(250)), timed_records(range(250)))
    values *= np.random.default_rng(5).lognormal(0, 0.5, values.shape)
    one_by_one, together = Window(), Window()
    for step in range(250):
        one_by_one.add((0, 1), PAIR, values[[step]], on_device[[step]])
    together.add((0, 1), PAIR, values, on_device)
    assert one_by_one.statistics() == together.statistics()


def test_other_ranks_begin_a_new_window() -> None:
    window = Window()
    window.add((0, 1), PAIR, *lasting([1.0], [1.0]))
    window.add((0, 2), PAIR, *lasting([5.0], [6.0]))
    assert window.statistics()[0].steps == 1
    assert step_seconds(window) == {0: pytest.approx(0.005), 2: pytest.approx(0.006)}


def test_a_ranks_memory_is_its_peak_over_the_window() -> None:
    window = Window(length=3)
    peaks = make_records(range(5), step_ns=MS, resident_bytes=[900.0, 10.0, 30.0, np.nan, 20.0])
    for step in range(5):
        window.add((0,), ("",), *side_by_side(peaks[[step]]))
    assert window.statistics()[0].memory_peaks == {"rss": {0: 30.0}}


def test_allocation_retries_are_those_of_the_window() -> None:
    window = Window(length=3)
    often = make_records(range(5), step_ns=MS, allocation_retries=[9.0, 0.0, 2.0, np.nan, 1.0])
    never = make_records(range(5), step_ns=MS)
    for step in range(5):
        window.add((0, 1), PAIR, *side_by_side(often[[step]], never[[step]]))
    assert window.statistics()[0].allocation_retries == {0: 3}


def test_memory_that_no_step_measured_is_absent() -> None:
    window = Window()
    window.add((0,), ("",), *lasting([1.0, 1.0]))
    assert window.statistics()[0].memory_peaks == {}
    assert window.statistics()[0].memory == {}


def test_other_groups_begin_a_new_window() -> None:
    window = Window()
    window.add((0, 1), PAIR, *lasting([1.0], [1.0]))
    window.add((0, 1), ("first", "second"), *lasting([5.0], [6.0]))
    assert window.statistics()[0].steps == 1
    assert window.statistics()[0].ranks[1].group == "second"


def test_what_left_the_window_is_waited_for_no_longer() -> None:
    window = Window(length=10)
    fast = timed_records(range(10))
    slow = timed_records(range(10), backward=30.0, collective_wait=1.0)
    window.add((0, 1), PAIR, *side_by_side(fast, slow))
    before = window.statistics()[0].ranks[1]
    window.add((0, 1), PAIR, *side_by_side(fast[:5], slow[:5]))
    window.add((0, 1), PAIR, *side_by_side(fast[5:], fast[5:]))
    after = window.statistics()[0].ranks[1]
    assert (before.led_ratio, after.led_ratio) == (1.0, 0.5)
    assert before.lost_seconds["backward"] == pytest.approx(0.100)
    assert after.lost_seconds["backward"] == pytest.approx(0.050)


def test_the_window_knows_how_many_of_its_steps_were_timed_on_the_devices() -> None:
    window = Window(length=4)
    on_device = make_records(range(3), step_ns=9 * MS, device_step_ns=2 * MS)
    window.add((0,), ("",), *side_by_side(on_device))
    window.add((0,), ("",), *lasting([6.0, 6.0]))
    assert window.statistics()[0].on_device_ratio == 0.5
    assert step_seconds(window) == {0: pytest.approx(0.004)}

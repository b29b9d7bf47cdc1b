import numpy as np
import pytest

from tests.builders import make_records
from traceml.sidecar.window import WINDOW_STEPS, Window
from traceml.wire.columns import Matrix

MS = 1e6


def lengths(*ranks_ms: list[float]) -> Matrix:
    """Steps (one row each) in which rank i takes `ranks_ms[i]`."""
    return np.stack(
        [make_records(range(len(ms)), step_ns=[m * MS for m in ms]).values for ms in ranks_ms],
        axis=1,
    )


def step_seconds(window: Window) -> dict[int, float]:
    return {rank: of.step_seconds for rank, of in window.statistics().ranks.items()}


def test_an_empty_window_says_nothing() -> None:
    result = Window().statistics()
    assert (result.steps, result.step, result.memory) == (0, None, None)
    assert not result.phases
    assert not result.ranks


def test_the_window_is_of_the_last_100_steps() -> None:
    window = Window()
    window.add((0,), lengths([1000.0] * 50))
    window.add((0,), lengths([10.0] * WINDOW_STEPS))
    assert WINDOW_STEPS == 100
    assert window.statistics().steps == 100
    assert step_seconds(window) == {0: pytest.approx(0.010)}


def test_more_steps_at_once_than_fit_leave_the_last_ones() -> None:
    window = Window(length=3)
    window.add((0,), lengths([900.0, 900.0, 1.0, 2.0, 3.0]))
    assert step_seconds(window) == {0: pytest.approx(0.002)}


def test_steps_that_come_one_by_one_count_as_those_that_come_together() -> None:
    one_by_one, together = Window(length=4), Window(length=4)
    milliseconds = [5.0, 7.0, 11.0, 13.0, 17.0, 19.0]
    for value in milliseconds:
        one_by_one.add((0, 1), lengths([value], [2 * value]))
    together.add((0, 1), lengths(milliseconds, [2 * value for value in milliseconds]))
    assert step_seconds(one_by_one) == pytest.approx(step_seconds(together))


def test_other_ranks_begin_a_new_window() -> None:
    window = Window()
    window.add((0, 1), lengths([1.0], [1.0]))
    window.add((0, 2), lengths([5.0], [6.0]))
    assert window.statistics().steps == 1
    assert step_seconds(window) == {0: pytest.approx(0.005), 2: pytest.approx(0.006)}


def test_a_ranks_memory_is_its_peak_over_the_window() -> None:
    window = Window(length=3)
    peaks = make_records(range(5), step_ns=MS, resident_bytes=[900.0, 10.0, 30.0, np.nan, 20.0])
    for row in peaks.values:
        window.add((0,), row[np.newaxis, np.newaxis])
    assert window.statistics().memory_peaks == {0: 30.0}


def test_memory_that_no_step_measured_is_absent() -> None:
    window = Window()
    window.add((0,), lengths([1.0, 1.0]))
    assert window.statistics().memory_peaks == {}
    assert window.statistics().memory is None

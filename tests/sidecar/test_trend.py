import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.trend import PARTS, Trend, certainty
from traceml.snapshot import MemoryTrend
from traceml.wire.columns import Matrix


def trend_of(memory: Matrix) -> Trend:
    """The trend of one rank."""
    trend = Trend()
    trend.add((0,), memory[:, np.newaxis])
    return trend


def bands(memory: Matrix) -> tuple[float, float, float]:
    found = trend_of(memory).trends()[0]
    return found.baseline_bytes, found.middle_bytes, found.recent_bytes


@given(
    st.integers(0, 2**32),
    st.integers(1, 5 * PARTS),
    st.lists(st.integers(0, 5 * PARTS), max_size=6),
)
def test_the_series_is_the_same_however_it_is_split(seed: int, steps: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    memory = rng.lognormal(20, 1, (steps, 2))
    memory[rng.random(memory.shape) < 0.1] = np.nan
    whole, in_parts = Trend(), Trend()
    whole.add((0, 1), memory)
    for part in np.split(memory, sorted(min(cut, steps) for cut in cuts)):
        in_parts.add((0, 1), part)
    assert pack(capture(in_parts)) == pack(capture(whole))  # to the last bit


@pytest.mark.parametrize("steps", [PARTS - 1, PARTS, PARTS + 1, 10 * PARTS, 12_345])
def test_folding_keeps_the_means(steps: int) -> None:
    memory = np.random.default_rng(1).normal(1e9, 1e7, steps)
    expected = [
        memory[round(low * steps) : round(high * steps)].mean()
        for low, high in ((0.15, 0.25), (0.45, 0.55), (0.90, 1.0))
    ]
    assert bands(memory) == pytest.approx(expected, rel=0.002)


def test_a_million_steps_take_no_more_memory_than_a_few() -> None:
    trend = trend_of(np.ones(10))
    few = held(trend)
    for _ in range(10):
        trend.add((0,), np.ones((100_000, 1)))
    assert held(trend) == few
    assert trend.trends() == {0: MemoryTrend(1_000_010, 1.0, 1.0, 1.0, 0.0, 0.0)}


def held(trend: Trend) -> int:
    return sum(value.nbytes for value in vars(trend).values() if isinstance(value, np.ndarray))


@pytest.mark.parametrize("steps", [100, 5000])
def test_the_bands_of_memory_that_grows_are_apart(steps: int) -> None:
    grown = np.linspace(0.0, 1.0, steps)
    assert bands(1e9 + 1e9 * grown) == pytest.approx((1.20e9, 1.50e9, 1.95e9), rel=0.01)


@pytest.mark.parametrize("steps", [20, 399, 400, 401, 5000])
def test_the_bands_of_memory_that_stays_are_equal(steps: int) -> None:
    assert bands(np.full(steps, 7e9)) == (7e9, 7e9, 7e9)


def test_growth_that_is_steady_rises_by_the_same_each_eighth() -> None:
    grown = trend_of(1e9 * np.linspace(0.0, 1.0, 4000)).trends()[0]
    assert grown.largest_rise_bytes == pytest.approx(1e9 * 0.85 / 8, rel=0.05)


def test_growth_at_once_rises_in_one_eighth_or_two() -> None:
    for at in range(1000, 3600, 100):
        memory = np.where(np.arange(4000) < at, 1e9, 2e9)
        rise = trend_of(memory).trends()[0].largest_rise_bytes
        assert 0.49e9 <= rise <= 1e9


def test_the_order_of_memory_that_only_rises_is_as_sure_as_it_can_be() -> None:
    for steps in (30, 300):
        assert certainty(np.arange(float(steps))[:, np.newaxis]) == pytest.approx(
            np.sqrt(steps - 1)
        )


def test_memory_that_stays_or_falls_rises_by_no_means_surely() -> None:
    assert certainty(np.ones((300, 1)))[0] < 0
    assert certainty(-np.arange(300.0)[:, np.newaxis])[0] == pytest.approx(-np.sqrt(299))
    assert certainty(np.full((300, 1), np.nan)).tolist() == [0.0]
    assert certainty(np.ones((0, 2))).tolist() == [0.0, 0.0]


@given(st.integers(0, 2**32))
def test_how_surely_it_rises_is_a_rank_correlation_of_what_was_measured(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = rng.lognormal(20, 1, 50) + 1e8 * np.arange(50)
    sparse = np.full((200, 1), np.nan)
    sparse[np.sort(rng.choice(200, 50, replace=False)), 0] = series
    places = np.argsort(np.argsort(series))
    expected = np.corrcoef(places, np.arange(50))[0, 1] * np.sqrt(49)
    assert certainty(sparse)[0] == pytest.approx(expected)


def test_with_few_steps_there_is_no_trend() -> None:
    assert trend_of(np.ones(19)).trends() == {}
    assert Trend().trends() == {}


def test_steps_in_which_it_was_not_measured_are_left_out() -> None:
    memory = np.full(1000, 7e9)
    memory[::3] = np.nan
    assert bands(memory) == (7e9, 7e9, 7e9)


def test_a_rank_without_a_figure_in_a_band_has_no_trend() -> None:
    memory = np.full((1000, 2), 7e9)
    memory[900:, 1] = np.nan
    trend = Trend()
    trend.add((4, 5), memory)
    assert list(trend.trends()) == [4]


def test_other_ranks_begin_anew() -> None:
    trend = Trend()
    trend.add((0, 1), np.full((500, 2), 9e9))
    trend.add((0, 2), np.full((100, 2), 2e9))
    assert trend.trends() == dict.fromkeys((0, 2), MemoryTrend(100, 2e9, 2e9, 2e9, 0.0, 0.0))


def test_a_trend_goes_on_after_a_checkpoint() -> None:
    memory = np.random.default_rng(2).normal(1e9, 1e7, 1000)
    trend = unpack(pack(capture(trend_of(memory[:500]))))
    trend.add((0,), memory[500:, np.newaxis])
    assert trend.trends() == trend_of(memory).trends()

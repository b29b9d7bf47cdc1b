import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sidecar.scopes import means_of, scope_of
from traceml.sidecar.statistics import NOTHING, capped_mean, spread, statistics

times = st.floats(0, 1e12)
absent = st.just(float("nan"))


def plain_capped_mean(values: Sequence[float]) -> float:
    present = sorted(value for value in values if not math.isnan(value))
    if not present:
        return math.nan
    cap = present[max(math.ceil(0.95 * len(present)) - 1, 0)]
    return math.fsum(min(value, cap) for value in present) / len(present)


@given(st.lists(times | absent, min_size=1, max_size=60))
def test_the_capped_mean_is_that_of_a_plain_implementation(values: list[float]) -> None:
    expected = plain_capped_mean(values)
    assert capped_mean(np.array(values)[:, np.newaxis])[0] == pytest.approx(expected, nan_ok=True)


def test_the_slowest_twentieth_counts_as_the_95th_percentile() -> None:
    values = np.array([10.0] * 95 + [1000.0] * 5)
    assert capped_mean(values[:, np.newaxis])[0] == 10.0


def test_a_slowness_that_is_more_than_a_twentieth_shows() -> None:
    values = np.array([10.0] * 94 + [1000.0] * 6)
    assert capped_mean(values[:, np.newaxis])[0] > 60.0


def test_each_column_is_capped_on_its_own() -> None:
    values = np.array([[1.0, math.nan, 5.0], [3.0, math.nan, math.nan]])
    np.testing.assert_array_equal(capped_mean(values), [2.0, math.nan, 5.0])


@given(st.dictionaries(st.integers(0, 1000), times, min_size=1))
def test_the_median_is_the_lower_one_and_a_real_ranks_value(values: dict[int, float]) -> None:
    over = spread(values)
    assert over is not None
    assert over.median == sorted(values.values())[(len(values) - 1) // 2]
    assert over.median in values.values()


@given(st.dictionaries(st.integers(0, 1000), times, min_size=1))
def test_the_worst_rank_has_the_largest_value(values: dict[int, float]) -> None:
    over = spread(values)
    assert over is not None
    assert over.worst == values[over.worst_rank] == max(values.values())


@given(st.dictionaries(st.integers(0, 1000), st.floats(1, 1e9), min_size=1))
def test_the_skew_is_the_worst_ranks_excess_over_the_median(values: dict[int, float]) -> None:
    over = spread(values)
    assert over is not None
    assert over.skew_ratio is not None
    assert over.skew_ratio >= 0
    assert over.median * (1 + over.skew_ratio) == pytest.approx(over.worst)


def test_at_two_ranks_the_median_is_the_faster_one() -> None:
    over = spread({0: 3.0, 1: 2.0})
    assert over is not None
    assert (over.median, over.worst, over.worst_rank, over.skew_ratio) == (2.0, 3.0, 0, 0.5)


def test_a_median_of_zero_has_no_skew() -> None:
    over = spread({0: 0.0, 1: 2.0})
    assert over is not None
    assert over.skew_ratio is None


def test_nothing_measured_has_no_spread() -> None:
    assert spread({}) is None


def test_a_phase_that_no_rank_measured_is_absent() -> None:
    result = statistics(scope_of(means_of(step=10, forward=4)))
    assert list(result.phases) == ["forward"]
    assert result.ranks[0].phases == {"forward": 0.004}


def test_a_phase_is_compared_over_the_ranks_that_measured_it() -> None:
    means = means_of(step=10, h2d=1), means_of(step=10), means_of(step=10, h2d=3)
    over = statistics(scope_of(*means, ranks=(4, 5, 6))).phases["h2d"].spread
    assert (over.median, over.worst, over.worst_rank) == (0.001, 0.003, 6)


def test_a_rank_whose_steps_were_not_measured_is_absent() -> None:
    assert list(statistics(scope_of(means_of(step=10), means_of(forward=3))).ranks) == [0]


def test_shares_are_of_the_median_ranks_step() -> None:
    result = statistics(scope_of(means_of(step=10, forward=5), means_of(step=40, forward=20)))
    assert result.phases["forward"].share_ratio == pytest.approx(0.5)


def test_steps_of_no_length_have_no_shares() -> None:
    result = statistics(scope_of(means_of(step=0, forward=0)))
    assert result.phases["forward"].share_ratio is None


def test_own_work_is_everything_but_waiting_for_others() -> None:
    row = means_of(step=12, forward=3, backward=4, other=1, collective_wait=4)
    assert statistics(scope_of(row)).ranks[0].own_seconds == pytest.approx(0.008)


def test_own_work_is_unknown_where_backward_was_not_measured() -> None:
    row = means_of(step=12, forward=3)
    assert statistics(scope_of(row)).ranks[0].own_seconds is None


def test_own_work_is_not_claimed_where_several_ranks_wait_unseen() -> None:
    seen = means_of(step=12, forward=3, backward=4, collective_wait=4)
    unseen = means_of(step=12, forward=3, backward=8)
    assert statistics(scope_of(unseen)).ranks[0].own_seconds == pytest.approx(0.011)
    ranks = statistics(scope_of(seen, unseen)).ranks
    assert ranks[0].own_seconds == pytest.approx(0.007)
    assert ranks[1].own_seconds is None


def test_memory_of_each_kind_is_compared_like_time() -> None:
    peaks = {"rss": {0: 100.0, 1: 150.0}, "allocated": {0: 8.0, 1: 6.0}}
    result = statistics(scope_of(means_of(step=1), means_of(step=1), memory_peaks=peaks))
    assert result.memory_peaks == peaks
    assert {kind: (of.worst_rank, of.skew_ratio) for kind, of in result.memory.items()} == {
        "rss": (1, 0.5),
        "allocated": (0, pytest.approx(1 / 3)),
    }


def test_what_ranks_share_is_told_in_seconds_and_absent_if_there_is_none() -> None:
    lengths = statistics(scope_of(means_of(step=1), exchange_ns=2e6)).lengths
    assert lengths is not None
    assert (lengths.p50_seconds, lengths.p95_seconds) == (0.010, 0.020)
    assert (lengths.exchange_seconds, lengths.imbalance_seconds) == (0.002, None)


@pytest.mark.parametrize(
    ("on_device", "clock"),
    [(0, "cpu"), (1, "mixed"), (18, "mixed"), (19, "device"), (20, "device")],
)
def test_whose_clock_it_is_goes_by_the_steps(on_device: int, clock: str) -> None:
    result = statistics(scope_of(means_of(step=1), steps=20, on_device=on_device))
    assert result.on_device_ratio == on_device / 20
    assert result.clock == clock


def test_a_scope_without_steps_says_nothing() -> None:
    assert (NOTHING.steps, NOTHING.step, NOTHING.lengths) == (0, None, None)
    assert (NOTHING.ranks, NOTHING.phases, NOTHING.memory) == ({}, {}, {})

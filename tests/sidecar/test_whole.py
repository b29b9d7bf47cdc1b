import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import make_records
from traceml.sidecar.statistics import capped_mean
from traceml.sidecar.whole import WholeRun
from traceml.wire.columns import Matrix

nanoseconds = st.lists(st.floats(1e3, 1e12), min_size=1, max_size=200)
BUCKET = 2 ** (1 / 16) - 1  # a bucket's width, as a ratio


def one_rank(step_ns: Sequence[float]) -> Matrix:
    return make_records(range(len(step_ns)), step_ns=step_ns).values[:, np.newaxis]


def whole_run_of(step_ns: Sequence[float]) -> WholeRun:
    whole = WholeRun()
    whole.add((0,), one_rank(step_ns))
    return whole


def exact_capped_mean(step_ns: Sequence[float]) -> float:
    return float(capped_mean(np.array(step_ns)[:, np.newaxis])[0]) / 1e9


@given(nanoseconds)
def test_the_streamed_mean_is_within_a_bucket_of_the_exact_one(step_ns: list[float]) -> None:
    streamed = whole_run_of(step_ns).statistics().ranks[0].step_seconds
    assert streamed == pytest.approx(exact_capped_mean(step_ns), rel=BUCKET)


def test_the_streamed_mean_of_a_long_run_is_within_a_percent() -> None:
    step_ns = np.random.default_rng(7).lognormal(np.log(50e6), 0.4, 20_000).tolist()
    streamed = whole_run_of(step_ns).statistics().ranks[0].step_seconds
    assert streamed == pytest.approx(exact_capped_mean(step_ns), rel=0.01)


@given(nanoseconds)
def test_quantiles_are_within_five_percent(step_ns: list[float]) -> None:
    quantiles = whole_run_of(step_ns).quantiles_seconds()
    exact = {
        name: float(np.quantile(step_ns, q, method="inverted_cdf")) / 1e9
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
    }
    assert quantiles == pytest.approx({**exact, "max": max(step_ns) / 1e9}, rel=0.05)


def test_a_steps_length_is_its_maximum_over_the_ranks() -> None:
    whole = WholeRun()
    whole.add((0, 1), np.concatenate([one_rank([1e9]), one_rank([3e9])], axis=1))
    assert whole.quantiles_seconds() == pytest.approx(
        {"p50": 3.0, "p90": 3.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    )


def test_a_run_without_steps_has_no_quantiles_and_no_statistics() -> None:
    whole = WholeRun()
    assert whole.quantiles_seconds() == {}
    assert whole.statistics().step is None


def test_values_that_were_not_measured_are_left_out_of_the_mean() -> None:
    whole = WholeRun()
    values = make_records(range(3), step_ns=1e6, h2d_ns=[4e6, np.nan, 2e6]).values
    whole.add((0,), values[:, np.newaxis])
    phases = whole.statistics().ranks[0].phases
    assert phases == {"h2d": pytest.approx(0.003, rel=BUCKET)}


def test_a_rank_keeps_its_values_when_ranks_come_in_another_order_or_anew() -> None:
    whole = WholeRun()
    whole.add((0, 1), np.concatenate([one_rank([1e9]), one_rank([2e9])], axis=1))
    whole.add((1, 0), np.concatenate([one_rank([2e9]), one_rank([1e9])], axis=1))
    whole.add((2,), one_rank([4e9]))
    seconds = {rank: of.step_seconds for rank, of in whole.statistics().ranks.items()}
    assert seconds == pytest.approx({0: 1.0, 1: 2.0, 2: 4.0})
    assert whole.statistics().steps == 3


def test_memory_peaks_are_kept_for_the_whole_run() -> None:
    whole = WholeRun()
    for peak in (5.0, 9.0, np.nan, 7.0):
        values = make_records([0], step_ns=1e6, resident_bytes=peak).values
        whole.add((0,), values[:, np.newaxis])
    assert whole.statistics().memory_peaks == {0: 9.0}


def test_a_long_run_takes_no_more_memory_than_a_short_one() -> None:
    def size_after(steps: int) -> int:
        return len(pickle.dumps(whole_run_of([1e6 + step for step in range(steps)])))

    assert size_after(20_000) - size_after(10) < 64

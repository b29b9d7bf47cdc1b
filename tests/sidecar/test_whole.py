import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import make_records
from tests.sidecar.scopes import lasting, side_by_side
from traceml.sidecar.statistics import capped_mean
from traceml.sidecar.whole import WholeRun
from traceml.wire.columns import Records

nanoseconds = st.lists(st.floats(1e3, 1e12), min_size=1, max_size=200)
BUCKET = 2 ** (1 / 16) - 1  # a bucket's width, as a ratio


def whole_run_of(step_ns: Sequence[float]) -> WholeRun:
    return after(make_records(range(len(step_ns)), step_ns=step_ns))


def after(*parts: Records) -> WholeRun:
    """The run of one rank that told this."""
    whole = WholeRun()
    for records in parts:
        whole.add((0,), ("",), *side_by_side(records))
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
    whole.add((0, 1), ("", ""), *lasting([1000.0], [3000.0]))
    assert whole.quantiles_seconds() == pytest.approx(
        {"p50": 3.0, "p90": 3.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    )


def test_a_run_without_steps_has_no_quantiles_and_no_statistics() -> None:
    whole = WholeRun()
    assert whole.quantiles_seconds() == {}
    assert whole.statistics().step is None


def test_values_that_were_not_measured_are_left_out_of_the_mean() -> None:
    whole = after(make_records(range(3), step_ns=1e6, h2d_ns=[4e6, np.nan, 2e6]))
    phases = whole.statistics().ranks[0].phases
    assert phases == {"h2d": pytest.approx(0.003, rel=BUCKET)}


def test_a_rank_keeps_its_values_when_ranks_come_in_another_order_or_anew() -> None:
    whole = WholeRun()
    whole.add((0, 1), ("", ""), *lasting([1000.0], [2000.0]))
    whole.add((1, 0), ("", ""), *lasting([2000.0], [1000.0]))
    whole.add((2,), ("",), *lasting([4000.0]))
    seconds = {rank: of.step_seconds for rank, of in whole.statistics().ranks.items()}
    assert seconds == pytest.approx({0: 1.0, 1: 2.0, 2: 4.0})
    assert whole.statistics().steps == 3


def test_memory_peaks_are_kept_for_the_whole_run() -> None:
    peaks = [(5.0, 2.0), (9.0, np.nan), (np.nan, 3.0), (7.0, 1.0)]
    whole = after(
        *(
            make_records([0], step_ns=1e6, resident_bytes=resident, allocated_bytes=allocated)
            for resident, allocated in peaks
        )
    )
    assert whole.statistics().memory_peaks == {"rss": {0: 9.0}, "allocated": {0: 3.0}}


def test_what_stays_allocated_is_followed_and_steps_without_it_are_left_out() -> None:
    floor = [2.0 if step % 7 == 0 else np.nan for step in range(290)]
    whole = after(
        make_records(range(10), step_ns=1e6, resident_bytes=900.0),
        make_records(
            range(10, 300),
            step_ns=1e6,
            resident_bytes=900.0,
            allocated_bytes=5.0,
            floor_bytes=floor,
        ),
    )
    trend = whole.memory_trends()[0]
    assert (trend.steps, trend.middle_bytes, trend.recent_bytes) == (300, 2.0, 2.0)


def test_a_rank_with_a_device_is_never_judged_by_its_resident_set() -> None:
    whole = after(make_records(range(300), step_ns=1e6, resident_bytes=9.0, allocated_bytes=5.0))
    assert whole.memory_trends() == {}


def test_allocation_retries_are_summed_over_the_whole_run_by_rank() -> None:
    often = [0.0, np.nan, 2.0, 1.0]
    told = make_records(range(4), step_ns=1e6, allocation_retries=often)
    never = make_records(range(4), step_ns=1e6, allocation_retries=0.0)
    whole = WholeRun()
    for _ in range(2):
        whole.add((3, 4), ("", ""), *side_by_side(told, never))
    assert whole.statistics().allocation_retries == {3: 6}


def test_the_resident_set_is_followed_where_there_is_no_device() -> None:
    whole = after(make_records(range(100), step_ns=1e6, resident_bytes=900.0))
    assert whole.memory_trends()[0].recent_bytes == 900.0


def test_a_long_run_takes_no_more_memory_than_a_short_one() -> None:
    def size_after(steps: int) -> int:
        return len(pickle.dumps(whole_run_of([1e6 + step for step in range(steps)])))

    assert size_after(20_000) - size_after(10) < 64

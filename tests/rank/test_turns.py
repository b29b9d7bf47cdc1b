import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.rank.turns import (
    LONGEST_SECONDS,
    NODE_REPORTS_PER_SECOND,
    SHORTEST_SECONDS,
    next_turn,
    report_seconds,
)

places = st.integers(1, 256).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1)))


@pytest.mark.parametrize(
    ("ranks", "seconds"), [(1, 0.25), (8, 0.25), (16, 0.25), (32, 0.5), (64, 1.0), (256, 1.0)]
)
def test_the_more_ranks_the_less_often_each_reports(ranks: int, seconds: float) -> None:
    assert report_seconds(ranks) == seconds
    assert SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS
    assert ranks / seconds <= NODE_REPORTS_PER_SECOND or seconds == LONGEST_SECONDS


@given(places, st.floats(0.0, 1e8))
def test_each_rank_has_its_own_part_of_the_period(place: tuple[int, int], now: float) -> None:
    ranks, rank = place
    period = report_seconds(ranks)
    due = next_turn(now, rank / ranks, period)
    assert 0.0 <= due - now <= period + 1e-6
    turns = due / period - rank / ranks
    assert turns == pytest.approx(round(turns), abs=1e-6)

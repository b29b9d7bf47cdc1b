import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.builders import timed_records
from traceml.sidecar.contest import MATERIAL, OWN_PHASES, Contest, contest, others_median
from traceml.wire.columns import MARKED, TIMES, Matrix, Records

MS = 1e6
BACKWARD = OWN_PHASES.index("backward")
FORWARD = OWN_PHASES.index("forward")
OTHER = OWN_PHASES.index("other")


def plain_others_median(row: Sequence[float], groups: Sequence[str], rank: int) -> float:
    group = [place for place, name in enumerate(groups) if name == groups[rank]]
    others = sorted(row[place] for place in group if place != rank)
    if not others or any(math.isnan(row[place]) for place in group):
        return math.nan
    return others[(len(others) - 1) // 2]


def compared(*ranks: Records, groups: Sequence[str] | None = None) -> Contest:
    times = np.stack([records.values[:, : len(TIMES)] for records in ranks], axis=1)
    return contest(times, groups or [""] * len(ranks))


def one(**phases_ms: float) -> Records:
    """One step of a rank."""
    return timed_records([0], tags=0, **phases_ms)


def moved(records: Records, **milliseconds: float) -> Records:
    """The same with other figures, by the names of TIMES without the unit."""
    values = records.values.copy()
    for name, value in milliseconds.items():
        values[:, TIMES.index(f"{name}_ns")] = value * MS
    return Records(records.step, records.tags, values)


def ends_of(records: Records) -> dict[str, float]:
    """When a rank's phases and its step ended, for `moved`."""
    names = ("end", *(f"{phase}_end" for phase in MARKED))
    return {name: records.values[0, TIMES.index(f"{name}_ns")] / MS for name in names}


@st.composite
def steps_in_groups(draw: st.DrawFn) -> tuple[Matrix, list[str]]:
    groups = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
    shape = (draw(st.integers(1, 4)), len(groups))
    figures = st.integers(0, 5).map(float) | st.floats(0, 1e12) | st.just(math.nan)
    return draw(arrays(np.float64, shape, elements=figures)), groups


@given(steps_in_groups())
def test_the_median_of_the_others_is_that_of_a_plain_implementation(
    case: tuple[Matrix, list[str]],
) -> None:
    values, groups = case
    names = np.array(groups)
    members = [np.flatnonzero(names == name) for name in sorted(set(groups))]
    expected = [
        [plain_others_median(row, groups, rank) for rank in range(len(groups))]
        for row in values.tolist()
    ]
    np.testing.assert_array_equal(others_median(values, members), expected)


def test_a_rank_that_works_longer_and_finishes_later_is_waited_for() -> None:
    result = compared(one(collective_wait=14.0), one(collective_wait=14.0), one(backward=30.0))
    assert result.excess[0, :, BACKWARD].tolist() == [0.0, 0.0, 10 * MS]
    assert result.late[0, :, BACKWARD].tolist() == [False, False, True]
    assert (result.leader[0], OWN_PHASES[result.phase[0]]) == (2, "backward")
    assert result.lost[0] == result.imbalance[0] == pytest.approx(10 * MS)
    assert result.length[0] == pytest.approx(53 * MS)


def test_what_one_rank_gains_elsewhere_is_not_lost() -> None:
    slow = one(forward=5.0, backward=30.0, collective_wait=9.0)
    result = compared(one(collective_wait=14.0), slow)
    assert result.excess[0, 1, BACKWARD] == 10 * MS
    assert result.lost[0] == pytest.approx(5 * MS)


half_of_ten = pytest.mark.parametrize(
    ("milliseconds", "is_late"), [(0.0, False), (4.9, False), (5.1, True)]
)


@half_of_ten
def test_a_rank_is_late_if_it_finished_later_by_half_of_its_excess(
    milliseconds: float, is_late: bool
) -> None:
    fast = one()
    ends = ends_of(fast)
    ends["backward_end"] -= milliseconds
    result = compared(fast, moved(one(backward=30.0), **ends))
    assert result.late[0, 1, BACKWARD] == is_late
    assert result.leader[0] == (1 if is_late else -1)
    assert result.lost[0] == pytest.approx(10 * MS if is_late else 0.0)


@half_of_ten
def test_a_rank_is_late_if_it_waited_less_by_half_of_its_excess(
    milliseconds: float, is_late: bool
) -> None:
    fast = one(collective_wait=4.0 + milliseconds)
    result = compared(fast, moved(one(backward=30.0), **ends_of(fast)))
    assert result.late[0, 1, BACKWARD] == is_late
    assert result.leader[0] == (1 if is_late else -1)


def test_who_waits_less_without_working_longer_is_not_late() -> None:
    assert not compared(one(collective_wait=14.0), one()).late.any()


def test_a_wait_inside_forward_that_nobody_measures_makes_nobody_late() -> None:
    slow = one(dataloader=22.0)
    waits = moved(one(forward=30.0), forward_end=30.0)
    result = compared(slow, waits)
    assert result.excess[0, 1, FORWARD] == 20 * MS
    assert not result.late[0, 1].any()


@pytest.mark.parametrize("phase", ["dataloader", "forward", "backward", "optimizer"])
def test_other_time_may_make_a_rank_late_anywhere(phase: str) -> None:
    fast, slow = one(), one(other=11.0)
    ends = ends_of(fast)
    assert not compared(fast, moved(slow, **ends)).late[0, 1, OTHER]
    ends[f"{phase}_end"] -= 8.0
    assert compared(fast, moved(slow, **ends)).late[0, 1, OTHER]


def test_other_time_at_the_very_end_makes_a_rank_late() -> None:
    assert compared(one(), one(other=11.0)).late[0].tolist()[1][OTHER]


def test_whoever_makes_a_step_hardly_longer_does_not_lead_it() -> None:
    below, above = (0.9 * MATERIAL * 43.0, 1.1 * MATERIAL * 43.0)
    assert compared(one(), one(backward=20.0 + below)).leader[0] == -1
    assert compared(one(), one(backward=20.0 + above)).leader[0] == 1


def test_the_exchange_is_the_shortest_wait() -> None:
    result = compared(one(collective_wait=14.0), one(collective_wait=3.0))
    assert result.exchange[0] == pytest.approx(3 * MS)


def test_ranks_are_compared_within_their_group() -> None:
    light, heavy = one(collective_wait=24.0), one(backward=40.0)
    result = compared(light, heavy, light, heavy, groups=["a", "b", "a", "b"])
    assert not result.late.any()
    assert (result.leader[0], result.imbalance[0]) == (-1, 0.0)


def test_of_ranks_that_have_no_peer_nothing_is_said() -> None:
    result = compared(one(), one(backward=40.0), groups=["a", "b"])
    assert np.isnan(result.excess).all()
    assert (result.leader[0], result.lost[0]) == (-1, 0.0)
    assert np.isnan(result.imbalance[0])
    assert not result.weight.any()


def test_where_a_figure_is_missing_on_one_rank_nothing_is_said_of_that_step() -> None:
    fast = timed_records(range(2), collective_wait=14.0)
    slow = timed_records(range(2), backward=30.0)
    fast.values[0, TIMES.index("backward_ns")] = math.nan
    result = compared(fast, slow)
    assert np.isnan(result.excess[0, :, BACKWARD]).all()
    assert result.late[:, 1, BACKWARD].tolist() == [False, True]
    assert result.leader.tolist() == [-1, 1]


def test_without_waits_there_is_no_own_work_to_compare() -> None:
    ranks = one(), one(backward=30.0)
    for records in ranks:
        records.values[:, TIMES.index("collective_wait_ns")] = math.nan
    result = compared(*ranks)
    assert result.leader[0] == -1
    assert np.isnan(result.exchange[0])
    assert result.weight[0, 1, BACKWARD] == pytest.approx(10 * MS)


def test_an_excess_weighs_no_more_than_the_fastest_ranks_own_work() -> None:
    result = compared(one(collective_wait=0.0), one(backward=20_000.0, collective_wait=0.0))
    assert result.weight[0, 1, BACKWARD] == pytest.approx(39 * MS)
    assert result.lost[0] == pytest.approx(19_980 * MS)


def test_no_weight_is_below_nothing_whatever_was_told() -> None:
    nonsense = moved(one(), collective_wait=500.0)
    assert (compared(nonsense, one(backward=30.0)).weight >= 0).all()

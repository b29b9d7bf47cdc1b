from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.builders import timed_records
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.contest import OWN_PHASES, contest
from traceml.sidecar.places import WIDTH
from traceml.sidecar.tally import Moments, Tally
from traceml.wire.columns import TIMES, Matrix, Records

RANKS = 9  # so many that a sum over them could be taken in more than one order


def tell(tally: Tally, times: Matrix, elements: Matrix) -> None:
    ranks = tuple(range(times.shape[1]))
    tally.add(ranks, contest(times, [""] * len(ranks)), elements, times[:, :, :WIDTH])


def tally_of(*ranks: Records) -> Tally:
    tally = Tally()
    values = np.stack([records.values for records in ranks], axis=1)
    tell(tally, values[:, :, : len(TIMES)], np.full(values.shape[:2], 4096.0))
    return tally


@st.composite
def split_steps(draw: st.DrawFn) -> tuple[Matrix, Matrix, list[int]]:
    steps = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    times = rng.lognormal(16, 0.7, (steps, RANKS, len(TIMES)))
    times[rng.random(times.shape) < draw(st.sampled_from([0.0, 0.02]))] = np.nan
    times[:, :, 0] = 1e9
    elements = draw(arrays(np.float64, (steps, RANKS), elements=st.floats(1, 1e6)))
    cuts = draw(st.lists(st.integers(0, steps), max_size=4))
    return times, elements, sorted({0, *cuts, steps})


@given(split_steps())
def test_sums_do_not_depend_on_the_parts_in_which_steps_came(
    case: tuple[Matrix, Matrix, list[int]],
) -> None:
    times, elements, cuts = case
    whole, in_parts = Tally(), Tally()
    tell(whole, times, elements)
    for begin, end in pairwise(cuts):
        tell(in_parts, times[begin:end], elements[begin:end])
    assert pack(capture(in_parts)) == pack(capture(whole))  # to the last bit


def test_a_rank_leads_the_steps_in_which_the_others_waited_for_it() -> None:
    fast = timed_records(range(4), collective_wait=14.0)
    slow = timed_records(range(4), backward=30.0)
    slow.values[3] = fast.values[3]
    tally = tally_of(fast, slow)
    assert (tally.steps, tally.accounts()[0].led_ratio, tally.accounts()[1].led_ratio) == (
        4,
        0.0,
        0.75,
    )


def test_what_others_waited_is_summed_by_phase() -> None:
    fast = timed_records(range(4), collective_wait=24.0)
    slow = timed_records(range(3), backward=30.0, collective_wait=14.0)
    slower = timed_records([3], dataloader=22.0)
    mixed = Records(fast.step, fast.tags, np.concatenate([slow.values, slower.values]))
    lost = tally_of(fast, mixed).accounts()[1].lost_seconds
    assert tuple(lost) == OWN_PHASES
    assert lost == pytest.approx({**dict.fromkeys(OWN_PHASES, 0.0), "backward": 0.03,
                                  "dataloader": 0.02})  # fmt: skip


def test_the_late_share_of_an_excess_is_by_weight() -> None:
    fast = timed_records(range(2), collective_wait=14.0)
    slow = timed_records(range(2), backward=30.0)
    unpunished = timed_records([1], backward=26.0, collective_wait=14.0)
    slow.values[1] = unpunished.values[0]
    ends = [place for place, name in enumerate(TIMES) if name.endswith("end_ns")]
    slow.values[1, ends] = fast.values[1, ends]
    assert tally_of(fast, slow).accounts()[1].late_ratio == {"backward": pytest.approx(10 / 16)}


def test_a_phase_without_an_excess_has_no_late_share() -> None:
    same = timed_records(range(2))
    assert tally_of(same, same).accounts()[0].late_ratio == {}


def test_a_rank_that_joins_later_is_counted_from_then_on() -> None:
    tally = tally_of(timed_records(range(3)))
    late = np.stack([timed_records([3]).values[:, : len(TIMES)]] * 2, axis=1)
    tell(tally, late, np.array([[4096.0, 100.0]]))
    assert (tally.steps, tally.accounts()[1].elements) == (4, 100.0)
    assert tally.accounts()[1].led_ratio == 0.0


def test_the_mean_batch_is_of_the_steps_that_know_theirs() -> None:
    tally = Tally()
    times = timed_records(range(3)).values[:, np.newaxis, : len(TIMES)]
    tell(tally, times, np.array([[10.0], [np.nan], [20.0]]))
    assert tally.accounts()[0].elements == 15.0


def test_batches_of_no_known_size_have_no_mean() -> None:
    tally = Tally()
    times = timed_records(range(3)).values[:, np.newaxis, : len(TIMES)]
    tell(tally, times, np.full((3, 1), np.nan))
    assert tally.accounts()[0].elements is None
    assert tally.length_by_batch.explained_ratio() is None


def test_a_rank_alone_has_no_imbalance_to_explain() -> None:
    tally = Tally()
    times = timed_records(range(30)).values[:, np.newaxis, : len(TIMES)]
    times[:, 0, 0] = np.linspace(1e7, 2e7, 30)
    tell(tally, times, np.linspace(100, 200, 30)[:, np.newaxis])
    assert tally.length_by_batch.explained_ratio() == pytest.approx(1.0)
    assert tally.imbalance_by_batch.explained_ratio() is None


def test_a_tally_survives_a_checkpoint() -> None:
    fast = timed_records(range(4), collective_wait=14.0)
    slow = timed_records(range(4), backward=30.0)
    restored = unpack(pack(capture(tally_of(fast, slow))))
    assert restored.accounts()[1].led_ratio == 1.0
    assert restored.accounts()[1].lost_seconds == tally_of(fast, slow).accounts()[1].lost_seconds


def explained(cause: Matrix, effect: Matrix) -> float | None:
    moments = Moments()
    moments.add(cause, effect)
    return moments.explained_ratio()


def test_an_exact_line_explains_all() -> None:
    sizes = np.arange(100.0) + 50.0
    assert explained(sizes, 3e4 * sizes + 1e7) == pytest.approx(1.0)


def test_a_constant_cause_explains_nothing() -> None:
    noise = np.random.default_rng(3).normal(5e7, 1e6, 500)
    assert explained(np.full(500, 4096.0), noise) is None


def test_an_effect_that_never_changes_needs_no_explanation() -> None:
    assert explained(np.arange(100.0), np.full(100, 8.0)) is None


def test_independent_noise_explains_about_nothing() -> None:
    rng = np.random.default_rng(3)
    ratio = explained(rng.normal(4096, 100, 5000), rng.normal(5e7, 1e6, 5000))
    assert ratio == pytest.approx(0.0, abs=0.01)


def test_larger_batches_do_not_explain_shorter_steps() -> None:
    sizes = np.arange(100.0) + 50.0
    assert explained(sizes, 1e7 - 1e4 * sizes) == 0.0


def test_pairs_that_are_not_whole_are_left_out() -> None:
    cause = np.array([1.0, np.nan, 2.0, 3.0, 4.0])
    effect = np.array([2.0, 1e9, 4.0, np.nan, 8.0])
    assert explained(cause, effect) == pytest.approx(1.0)


def test_a_single_pair_says_nothing() -> None:
    assert explained(np.array([1.0]), np.array([2.0])) is None

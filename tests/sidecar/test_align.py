from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import make_records
from traceml.sidecar.align import MAX_PENDING_STEPS, AlignedSteps, Aligner
from traceml.wire.columns import VALUES, Records
from traceml.wire.tags import Tag

STEP_NS = VALUES.index("step_ns")
MISSING_ONCE = {"missing": 1}


def told_by(rank: int, steps: Sequence[int], tags: int = 0) -> Records:
    """Records whose step time tells the rank and the step."""
    return make_records(steps, tags=tags, step_ns=[value_of(rank, step) for step in steps])


def value_of(rank: int, step: int) -> float:
    return 1e6 * rank + step


def numbers(completed: Sequence[AlignedSteps]) -> list[int]:
    return [int(step) for part in completed for step in part.step]


def test_a_step_is_completed_by_the_last_rank_to_report_it() -> None:
    aligner = Aligner(expected=3)
    assert aligner.add(0, told_by(0, [0, 1])) == []
    assert aligner.add(2, told_by(2, [0, 1])) == []
    assert numbers(aligner.add(1, told_by(1, [0]))) == [0]
    assert numbers(aligner.add(1, told_by(1, [1]))) == [1]


def test_ranks_stand_in_their_order_whoever_reported_first() -> None:
    aligner = Aligner(expected=2)
    aligner.add(5, told_by(5, [7]))
    (completed,) = aligner.add(4, told_by(4, [7]))
    assert completed.ranks == (4, 5)
    assert completed.values[0, :, STEP_NS].tolist() == [value_of(4, 7), value_of(5, 7)]


def test_a_step_carries_the_tags_of_all_its_ranks() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 1], tags=Tag.EVAL))
    aligner.add(1, told_by(1, [0], tags=Tag.WARMUP))
    (completed,) = aligner.add(1, told_by(1, [1]))
    assert completed.tags.tolist() == [Tag.EVAL]


def test_a_tag_does_not_outlive_its_step() -> None:
    aligner = Aligner(expected=1)
    aligner.add(0, told_by(0, [0], tags=Tag.EVAL))
    (completed,) = aligner.add(0, told_by(0, [MAX_PENDING_STEPS]))
    assert completed.tags.tolist() == [0]


def test_a_step_that_a_rank_has_passed_without_it_is_missing() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 1, 2]))
    assert numbers(aligner.add(1, told_by(1, [0, 2]))) == [0, 2]
    assert aligner.incomplete == MISSING_ONCE


def test_a_step_that_no_rank_reported_is_not_incomplete() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 5]))
    assert numbers(aligner.add(1, told_by(1, [0, 5]))) == [0, 5]
    assert not aligner.incomplete


def test_a_record_for_a_settled_step_is_late_and_changes_nothing() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 1]))
    aligner.add(1, told_by(1, [1]))
    assert aligner.add(1, told_by(1, [0])) == []
    assert aligner.late == 1
    assert aligner.incomplete == MISSING_ONCE


def test_a_record_that_comes_again_is_a_duplicate_and_the_first_one_counts() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [3]))
    aligner.add(0, told_by(9, [3]))
    (completed,) = aligner.add(1, told_by(1, [3]))
    assert aligner.duplicates == 1
    assert completed.values[0, 0, STEP_NS] == value_of(0, 3)


def test_a_rank_may_begin_earlier_than_the_first_that_reported() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [10, 11]))
    assert numbers(aligner.add(1, told_by(1, [8, 9, 10, 11]))) == [10, 11]
    assert aligner.late == 0
    assert aligner.incomplete == {"missing": 2}


def test_steps_that_start_over_are_late_for_this_attempt() -> None:
    aligner = Aligner(expected=1)
    aligner.add(0, told_by(0, range(100)))
    assert aligner.add(0, told_by(0, range(10))) == []
    assert aligner.late == 10


def test_a_rank_too_far_behind_costs_the_oldest_steps() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, range(MAX_PENDING_STEPS + 10)))
    assert aligner.incomplete == {"overflow": 10}
    completed = aligner.add(1, told_by(1, range(MAX_PENDING_STEPS + 10)))
    assert numbers(completed) == list(range(10, MAX_PENDING_STEPS + 10))
    assert aligner.late == 10


def test_a_jump_over_more_steps_than_are_held_leaves_alignment_working() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 1]))
    far = 100 * MAX_PENDING_STEPS
    aligner.add(0, told_by(0, [far]))
    assert aligner.incomplete == {"overflow": 2}
    assert numbers(aligner.add(1, told_by(1, [far]))) == [far]


def test_one_rank_more_than_expected_is_left_out() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0]))
    aligner.add(1, told_by(1, [0]))
    assert aligner.add(2, told_by(2, [0, 1])) == []
    assert aligner.late == 2


def test_what_waits_when_the_attempt_ends_is_counted_under_its_reason() -> None:
    aligner = Aligner(expected=2)
    aligner.add(0, told_by(0, [0, 1, 2]))
    aligner.add(1, told_by(1, [0]))
    aligner.give_up("restart")
    assert aligner.incomplete == {"restart": 2}


@pytest.mark.parametrize("expected", [1, 64, 1024])
def test_the_buffer_is_bounded_whatever_the_number_of_ranks(expected: int) -> None:
    aligner = Aligner(expected)
    held = sum(array.nbytes for array in vars(aligner).values() if isinstance(array, np.ndarray))
    assert held < 32 * 2**20


@dataclass(frozen=True)
class Delivery:
    rank: int
    steps: tuple[int, ...]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[int, list[Delivery]]:
    """Each rank's batches in its order, mixed with others', some delivered again later."""
    expected = draw(st.integers(1, 4))
    base = draw(st.integers(0, 2 * MAX_PENDING_STEPS))
    queues = [draw(batches_of(rank, base)) for rank in range(expected)]
    mixed: list[Delivery] = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
        if draw(st.integers(0, 3)) == 0:
            mixed.append(draw(st.sampled_from(mixed)))
    return expected, mixed


@st.composite
def batches_of(draw: st.DrawFn, rank: int, base: int) -> list[Delivery]:
    steps = [base + step for step in sorted(draw(st.sets(st.integers(0, 12), max_size=12)))]
    batches = []
    while steps:
        size = draw(st.integers(1, len(steps)))
        batches.append(Delivery(rank, tuple(steps[:size])))
        steps = steps[size:]
    return batches


@given(deliveries())
def test_exactly_the_steps_of_all_ranks_are_completed(case: tuple[int, list[Delivery]]) -> None:
    expected, mixed = case
    aligner = Aligner(expected)
    completed = [part for of in mixed for part in aligner.add(of.rank, told_by(of.rank, of.steps))]
    aligner.give_up("restart")
    reported = [{s for of in mixed if of.rank == r for s in of.steps} for r in range(expected)]
    of_all, of_any = set.intersection(*reported), set.union(*reported)
    assert sorted(numbers(completed)) == sorted(of_all)
    assert sum(aligner.incomplete.values()) == len(of_any - of_all)
    for part in completed:
        told = [[value_of(rank, int(step)) for rank in part.ranks] for step in part.step]
        assert part.values[:, :, STEP_NS].tolist() == told


@given(deliveries())
def test_every_record_that_came_again_is_counted(case: tuple[int, list[Delivery]]) -> None:
    expected, mixed = case
    aligner = Aligner(expected)
    for of in mixed:
        aligner.add(of.rank, told_by(of.rank, of.steps))
    again = sum(len(of.steps) for of in mixed) - len(
        {(of.rank, s) for of in mixed for s in of.steps}
    )
    assert aligner.late + aligner.duplicates == again

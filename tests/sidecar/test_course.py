import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    STARTED_AT,
    Clock,
    Process,
    golden_run,
    joined,
    make_collector,
    start_ranks,
    timed_records,
)
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.clock import KEPT
from traceml.sidecar.collector import Collector
from traceml.sidecar.course import PARTS, Course
from traceml.snapshot import Part
from traceml.wire.columns import Matrix
from traceml.wire.tags import Tag

FORWARD, STEP = KEPT.index("forward_ns"), KEPT.index("step_ns")
ALLOCATED, RESIDENT = KEPT.index("allocated_bytes"), KEPT.index("resident_bytes")


def steps_of(forward_ms: Matrix) -> Matrix:
    """Steps (step x rank) of which only forward was measured."""
    values = np.full((*forward_ms.shape, len(KEPT)), np.nan)
    values[:, :, [STEP, FORWARD]] = forward_ms[:, :, np.newaxis] * 1e6
    return values


def add(course: Course, values: Matrix, ended_ns: Matrix | None = None) -> None:
    lengths = values[:, :, STEP].max(axis=1)
    each_second = (course.steps + np.arange(1.0, len(values) + 1)) * 1e9
    ended_ns = each_second if ended_ns is None else ended_ns
    course.add(tuple(range(values.shape[1])), values, lengths, ended_ns)


def course_of(values: Matrix) -> Course:
    course = Course()
    add(course, values)
    return course


def parts_of(course: Course) -> tuple[Part, ...]:
    """With the last step a second per step after the run's start."""
    return course.parts(STARTED_AT + course.steps, course.steps * 1e9)


@given(
    st.integers(0, 2**32),
    st.integers(1, 5 * PARTS),
    st.lists(st.integers(0, 5 * PARTS), max_size=6),
)
def test_the_parts_are_the_same_however_the_steps_came(
    seed: int, steps: int, cuts: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    values = steps_of(rng.lognormal(0, 1, (steps, 2)))
    values[:, :, FORWARD][rng.random((steps, 2)) < 0.1] = np.nan
    whole, in_pieces = course_of(values), Course()
    for piece in np.split(values, sorted(min(cut, steps) for cut in cuts)):
        add(in_pieces, piece)
    assert pack(capture(in_pieces)) == pack(capture(whole))  # to the last bit


@given(st.integers(1, 10 * PARTS))
def test_there_are_at_most_256_parts_of_equally_many_steps(steps: int) -> None:
    sizes = [part.steps for part in parts_of(course_of(steps_of(np.ones((steps, 1)))))]
    assert sum(sizes) == steps
    assert len(sizes) <= PARTS
    assert set(sizes[:-1]) <= {sizes[0]}
    assert sizes[-1] <= sizes[0]


@pytest.mark.parametrize("steps", [10, PARTS, PARTS + 1, 3000])
def test_a_part_tells_the_mean_and_the_longest_of_its_steps(steps: int) -> None:
    milliseconds = np.random.default_rng(3).lognormal(3, 0.5, steps)
    at = 0
    for part in parts_of(course_of(steps_of(milliseconds[:, np.newaxis]))):
        own = milliseconds[at : at + part.steps] / 1e3
        assert part.seconds == pytest.approx(own.mean())
        assert part.longest_seconds == pytest.approx(own.max())
        at += part.steps
    assert at == steps


def test_a_million_steps_take_no_more_memory_than_a_few() -> None:
    course = course_of(steps_of(np.ones((10, 1))))
    few = held(course)
    piece = steps_of(np.ones((100_000, 1)))
    for _ in range(10):
        add(course, piece)
    assert held(course) == few
    assert sum(part.steps for part in parts_of(course)) == 1_000_010


def held(course: Course) -> int:
    return sum(value.nbytes for value in vars(course).values() if isinstance(value, np.ndarray))


def test_a_phase_is_the_lower_median_over_ranks_of_their_means() -> None:
    forward_ms = np.array([[1.0, 4.0, 9.0, 5.0], [3.0, 6.0, 9.0, 5.0]] * PARTS)
    first = parts_of(course_of(steps_of(forward_ms)))[0]
    assert first.steps == 4
    assert first.phases == {"forward": pytest.approx(0.005)}
    assert first.seconds == pytest.approx(0.009)


def test_a_rank_that_did_not_measure_a_phase_is_not_asked() -> None:
    values = steps_of(np.array([[1.0, 2.0, 3.0]]))
    values[:, 0, FORWARD] = np.nan
    (part,) = parts_of(course_of(values))
    assert part.phases == {"forward": pytest.approx(0.002)}


def test_a_rank_that_comes_later_counts_from_then_on() -> None:
    course = course_of(steps_of(np.full((1, 1), 7.0)))
    add(course, steps_of(np.array([[7.0, 3.0]])))
    assert [part.phases["forward"] for part in parts_of(course)] == pytest.approx([0.007, 0.003])


def test_the_memory_of_the_device_goes_before_that_of_the_process() -> None:
    values = steps_of(np.ones((1, 3)))
    values[:, :, RESIDENT] = [[10.0, 20.0, 30.0]]
    (part,) = parts_of(course_of(values))
    assert (part.memory_median_bytes, part.memory_worst_bytes) == (20.0, 30.0)
    values[:, :, ALLOCATED] = [[3.0, 1.0, 2.0]]
    (part,) = parts_of(course_of(values))
    assert (part.memory_median_bytes, part.memory_worst_bytes) == (2.0, 3.0)


def test_memory_that_nobody_measured_is_absent() -> None:
    (part,) = parts_of(course_of(steps_of(np.ones((1, 2)))))
    assert (part.memory_median_bytes, part.memory_worst_bytes) == (None, None)


@pytest.mark.parametrize("steps", [3, 1000])
def test_parts_end_when_their_last_step_did(steps: int) -> None:
    at = 0
    for part in parts_of(course_of(steps_of(np.ones((steps, 1))))):
        at += part.steps
        assert part.ended_at == pytest.approx(STARTED_AT + at)


def test_steps_that_tell_no_time_end_with_the_last() -> None:
    course = Course()
    add(course, steps_of(np.ones((2, 1))), np.full(2, np.nan))
    assert [part.ended_at for part in course.parts(5.0, float("nan"))] == [5.0, 5.0]


def test_no_steps_make_no_parts() -> None:
    assert Course().parts(None, 0.0) == ()


def test_a_course_goes_on_after_a_checkpoint() -> None:
    values = steps_of(np.random.default_rng(2).lognormal(0, 1, (1000, 2)))
    course: Course = unpack(pack(capture(course_of(values[:400]))))
    add(course, values[400:])
    assert parts_of(course) == parts_of(course_of(values))


def run_with(tags: list[int]) -> Collector:
    """A run of one rank whose steps have these tags."""
    collector = make_collector(Clock())
    (rank,) = start_ranks(collector, 1)
    send(rank, tags)
    return collector


def send(rank: Process, tags: list[int], first: int = 0) -> None:
    records = [timed_records([first + n], tags=tag) for n, tag in enumerate(tags)]
    rank.send(joined(records))


def excluded(collector: Collector) -> list[int]:
    return [part.excluded for part in collector.snapshot().steps.parts]


def test_tagged_steps_are_counted_in_the_part_of_the_step_before_them() -> None:
    assert excluded(run_with([Tag.WARMUP, 0, 0, Tag.EVAL, Tag.EVAL, 0, Tag.CHECKPOINT])) == [
        1, 2, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("cut", [1, 255, 256, 257, 300, 599])
def test_tagged_steps_are_counted_alike_however_they_came(cut: int) -> None:
    tags = [Tag.EVAL if n % 7 == 0 else 0 for n in range(600)]
    collector = make_collector(Clock())
    (rank,) = start_ranks(collector, 1)
    send(rank, tags[:cut])
    send(rank, tags[cut:], first=cut)
    assert excluded(collector) == excluded(run_with(tags))
    assert sum(excluded(collector)) == 86


def test_the_golden_run_is_told_in_order() -> None:
    parts = golden_run().steps.parts
    assert [part.steps for part in parts] == [1] * 22
    assert [part.excluded for part in parts] == [2] + [0] * 21
    assert parts[0].phases["collective_wait"] == pytest.approx(0.004)
    assert [part.ended_at for part in parts] == sorted(part.ended_at for part in parts)


def test_the_lengths_are_told_in_buckets_that_all_lie_within_bounds() -> None:
    lengths = golden_run().steps.lengths
    assert len(lengths.counts) == len(lengths.bounds_seconds) + 1
    assert (lengths.counts[0], lengths.counts[-1], sum(lengths.counts)) == (0, 0, 22)
    assert lengths.bounds_seconds[0] <= 0.053 <= lengths.bounds_seconds[-1]
    assert make_collector(Clock()).snapshot().steps.lengths.counts == (0,)

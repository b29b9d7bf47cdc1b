import numpy as np
import pytest

from tests.builders import make_records
from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.steps import HISTOGRAM_BOUNDS_SECONDS, StepBook
from traceml.snapshot import Steps
from traceml.wire.tags import Tag


def aligned(*ranks_seconds: list[float], tags: int = 0) -> AlignedSteps:
    """Completed steps in which rank i takes `ranks_seconds[i]`."""
    of_ranks = [
        make_records(range(len(seconds)), tags=tags, step_ns=[s * 1e9 for s in seconds])
        for seconds in ranks_seconds
    ]
    values = np.stack([records.values for records in of_ranks], axis=1)
    return AlignedSteps(tuple(range(len(of_ranks))), of_ranks[0].step, of_ranks[0].tags, values)


def after(*parts: AlignedSteps) -> Steps:
    book = StepBook()
    for now, part in enumerate(parts, start=100):
        book.add(part, {}, float(now))
    return book.steps({})


def test_the_histogram_goes_from_a_millisecond_by_factors_of_two() -> None:
    assert HISTOGRAM_BOUNDS_SECONDS[:3] == (0.001, 0.002, 0.004)
    assert HISTOGRAM_BOUNDS_SECONDS[-1] == pytest.approx(524.288)


def test_a_step_is_counted_in_the_bucket_of_its_slowest_rank() -> None:
    histogram = after(aligned([0.0015, 0.003], [0.0031, 0.0005])).histogram
    assert histogram.counts[:4] == (0, 0, 2, 0)
    assert histogram.sum_seconds == pytest.approx(0.0061)


def test_a_step_as_long_as_a_bound_is_within_it() -> None:
    assert after(aligned([0.002])).histogram.counts[:3] == (0, 1, 0)


def test_a_step_beyond_all_bounds_is_counted_last() -> None:
    histogram = after(aligned([3600.0])).histogram
    assert len(histogram.counts) == len(HISTOGRAM_BOUNDS_SECONDS) + 1
    assert histogram.counts[-1] == sum(histogram.counts) == 1


@pytest.mark.parametrize(
    ("tags", "label"),
    [(Tag.EVAL, "eval"), (Tag.COMPILE | Tag.EVAL, "compile"), (Tag.WARMUP | Tag.EVAL, "warmup")],
)
def test_a_tagged_step_is_excluded_once_however_many_tags_it_has(tags: int, label: str) -> None:
    steps = after(aligned([0.5, 0.5], tags=tags))
    expected = {"warmup": 0, "compile": 0, "checkpoint": 0, "eval": 0, "user": 0, label: 2}
    assert steps.excluded == expected
    assert steps.completed == 2
    assert sum(steps.histogram.counts) == 0


def test_the_last_step_was_completed_when_it_was_taken() -> None:
    assert StepBook().steps({}).last_completed_at is None
    assert after(aligned([0.5]), aligned([0.5], tags=Tag.EVAL)).last_completed_at == 101.0

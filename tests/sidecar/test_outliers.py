from collections.abc import Sequence

import numpy as np
import pytest

from tests.builders import joined, timed_records
from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.outliers import KEPT, MAX_PER_MINUTE, MIN_STEPS
from traceml.sidecar.steps import StepBook
from traceml.snapshot import Outlier, RankStep
from traceml.wire.columns import VALUES, Records
from traceml.wire.tags import Tag

BOOT = 1_000.0  # the unix time at which the ranks' clock was 0
USUAL_SECONDS = 0.043
_END = VALUES.index("end_ns")


class Book:
    """A book that is told of steps, ten a second."""

    def __init__(self) -> None:
        self.book = StepBook()
        self.step = 0

    def tell(self, *ranks: dict[str, float], steps: int = 1, tags: int = 0) -> None:
        """Steps in which rank i takes `ranks[i]` milliseconds in these phases."""
        numbers = range(self.step, self.step + steps)
        self._add([timed_records(numbers, tags=tags, **given) for given in ranks])

    def tell_all(self, steps: Sequence[dict[str, float]]) -> None:
        """Steps told at once, each with its own milliseconds, the same on both of two ranks."""
        each = [timed_records([self.step + n], tags=0, **given) for n, given in enumerate(steps)]
        self._add([joined(each), joined(each)])

    def _add(self, told: Sequence[Records]) -> None:
        values = np.stack([records.values for records in told], axis=1)
        now = BOOT + float(values[-1, :, _END].max()) / 1e9
        part = AlignedSteps(tuple(range(len(told))), told[0].step, told[0].tags, values)
        self.book.add(part, {}, now)
        self.step += len(told[0])

    @property
    def outliers(self) -> Sequence[Outlier]:
        return self.book.outliers()


@pytest.fixture
def book() -> Book:
    """One that knows what is usual."""
    book = Book()
    book.tell({}, {}, steps=MIN_STEPS)
    assert not book.outliers
    return book


def of_rank(outlier: Outlier, rank: int) -> RankStep:
    (found,) = (of for of in outlier.ranks if of.rank == rank)
    return found


def test_a_step_held_up_by_one_rank_stands_out_and_names_it(book: Book) -> None:
    book.tell({"collective_wait": 54}, {"forward": 60})
    (outlier,) = book.outliers
    assert (outlier.step, outlier.culprit, outlier.phase) == (MIN_STEPS, 1, "forward")
    assert outlier.lost_seconds == pytest.approx(0.050)
    assert outlier.seconds == pytest.approx(USUAL_SECONDS + 0.050)
    assert outlier.typical_seconds == pytest.approx(USUAL_SECONDS)


def test_a_step_long_on_all_ranks_stands_out_and_names_nobody(book: Book) -> None:
    book.tell({"forward": 60}, {"forward": 60})
    (outlier,) = book.outliers
    assert (outlier.culprit, outlier.phase, outlier.lost_seconds) == (None, None, 0.0)


def test_a_usual_step_does_not_stand_out(book: Book) -> None:
    book.tell({}, {"forward": 12}, steps=50)
    assert not book.outliers


def test_nothing_stands_out_before_there_is_something_to_compare_with() -> None:
    book = Book()
    book.tell({}, {}, steps=MIN_STEPS - 1)
    book.tell({}, {"forward": 500})
    assert not book.outliers


def test_a_tagged_step_never_stands_out(book: Book) -> None:
    book.tell({"other": 900}, {"other": 900}, tags=Tag.CHECKPOINT)
    assert not book.outliers


def test_phases_are_where_they_were_in_time(book: Book) -> None:
    book.tell({"collective_wait": 54}, {"forward": 60})
    (outlier,) = book.outliers
    slow = of_rank(outlier, 1)
    assert slow.ended_at == pytest.approx(BOOT + 0.1 * MIN_STEPS + slow.seconds)
    placed = {phase.phase: phase for phase in slow.phases}
    assert placed["other"].ended_before_seconds is None
    in_order = ("dataloader", "h2d", "forward", "backward", "collective_wait")
    begin = placed["other"].seconds
    for name in in_order:
        ended_before = placed[name].ended_before_seconds
        assert ended_before is not None
        end = slow.seconds - ended_before
        assert end - placed[name].seconds == pytest.approx(begin)
        begin = end


def test_what_was_not_measured_is_not_there(book: Book) -> None:
    book.tell({"h2d": 0.0, "forward": 90}, {"h2d": 0.0, "forward": 90})
    (outlier,) = book.outliers
    assert "h2d" not in {phase.phase for phase in of_rank(outlier, 0).phases}


def test_no_more_than_so_many_a_minute_are_kept(book: Book) -> None:
    for _ in range(3):
        book.tell({"forward": 300}, {"forward": 300}, steps=MAX_PER_MINUTE // 2 + 1)
    assert len(book.outliers) == MAX_PER_MINUTE
    book.tell({}, {}, steps=700)  # more than a minute
    book.tell({"forward": 300}, {"forward": 300})
    assert [outlier.number for outlier in book.outliers][-1] == MAX_PER_MINUTE + 1


def test_of_steps_told_together_the_longest_are_kept() -> None:
    book = Book()
    book.tell({}, {}, steps=MIN_STEPS)
    lengths = [{"forward": 10.0 + 200 * (step % 7)} for step in range(70)]
    book.tell_all(lengths)
    kept = {round(outlier.seconds - USUAL_SECONDS, 3) for outlier in book.outliers}
    assert kept == {1.2}


def test_steps_that_are_all_held_up_alike_leave_room_for_one_like_no_other(book: Book) -> None:
    book.tell({"collective_wait": 24}, {"forward": 30}, steps=100)
    alike = len(book.outliers)
    assert 0 < alike < MAX_PER_MINUTE / 2
    book.tell({"collective_wait": 1_004}, {"forward": 1_010})
    assert len(book.outliers) == alike + 1


def test_only_the_last_are_kept(book: Book) -> None:
    for _ in range(3):
        book.tell({"forward": 400}, {"forward": 400}, steps=MAX_PER_MINUTE)
        book.tell({}, {}, steps=700)
    numbers = [outlier.number for outlier in book.outliers]
    assert numbers == list(range(3 * MAX_PER_MINUTE - KEPT + 1, 3 * MAX_PER_MINUTE + 1))


def test_they_outlive_a_restart_of_the_sidecar(book: Book) -> None:
    book.tell({"collective_wait": 54}, {"forward": 60})
    loaded = unpack(pack(capture(book.book)))
    assert loaded.outliers() == book.outliers

"""What became of the steps: completed, left out, given up, and how long they took."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.clock import on_one_clock
from traceml.sidecar.course import Course
from traceml.sidecar.outliers import Outliers
from traceml.sidecar.shapes import Count, Shape
from traceml.sidecar.whole import WholeRun
from traceml.sidecar.window import Window
from traceml.snapshot import MemoryTrend, Outlier, Statistics, StepHistogram, Steps
from traceml.wire.columns import TIMES, VALUES, Integers
from traceml.wire.tags import Tag

_END = VALUES.index("end_ns")
HISTOGRAM_BOUNDS_SECONDS = tuple(0.001 * 2**power for power in range(20))  # 1 ms to 524 s


@saved
class StepBook:
    """Keeps both scopes and the counts, from one stream of completed steps."""

    _window: Window
    _whole: WholeRun
    _course: Course
    _outliers: Outliers
    _completed: Count
    _excluded: Counter[str]
    _last_at: float | None
    _last_end_ns: float  # the same by the ranks' own clock
    _counts: Annotated[Integers, Shape(len(HISTOGRAM_BOUNDS_SECONDS) + 1)]
    _sum_ns: float

    def __init__(self) -> None:
        self._window = Window()
        self._whole = WholeRun()
        self._course = Course()
        self._outliers = Outliers()
        self._completed = 0
        self._excluded = Counter({tag.label: 0 for tag in Tag})
        self._last_at = None
        self._last_end_ns = 0.0
        self._counts = np.zeros(len(HISTOGRAM_BOUNDS_SECONDS) + 1, dtype=np.int64)
        self._sum_ns = 0.0

    def is_sound(self) -> bool:
        """Whether every tag is counted."""
        return self._excluded.keys() >= {tag.label for tag in Tag}

    def add(self, steps: AlignedSteps, groups: Mapping[int, str], now: float) -> None:
        """Take completed steps; tagged ones are counted and left out of the statistics.

        Ranks of one group are compared with each other.
        """
        self._completed += len(steps.step)
        self._note_time(float(steps.values[-1, :, _END].max()), now)
        for tags in steps.tags[steps.tags > 0]:
            self._excluded[_first(int(tags)).label] += 1
        untagged = steps.tags == 0
        before = self._course.steps + np.cumsum(untagged)
        if untagged.any():
            self._add_untagged(steps[untagged], groups)
        self._course.exclude(before[~untagged])

    def _add_untagged(self, steps: AlignedSteps, groups: Mapping[int, str]) -> None:
        values, on_device = on_one_clock(steps.values)
        told = steps.ranks, tuple(groups.get(rank, "") for rank in steps.ranks)
        self._window.add(*told, values, on_device)
        compared = self._whole.add(*told, values, on_device)
        self._outliers.add(steps, values[:, :, : len(TIMES)], compared, self._epoch)
        lengths = compared.length
        np.add.at(self._counts, np.searchsorted(HISTOGRAM_BOUNDS_SECONDS, lengths / 1e9), 1)
        self._sum_ns += float(lengths.sum())
        self._course.add(steps.ranks, values, lengths, steps.values[:, :, _END].max(axis=1))

    @property
    def _epoch(self) -> float:
        """The unix time at which the ranks' clock was 0."""
        assert self._last_at is not None
        return self._last_at - self._last_end_ns / 1e9

    def _note_time(self, end_ns: float, now: float) -> None:
        """A step may be told long after it ended: at the end of a run that stood still."""
        since = (end_ns - self._last_end_ns) / 1e9
        before = self._last_at
        self._last_at = now if before is None or not since > 0 else min(now, before + since)
        self._last_end_ns = end_ns

    def steps(self, incomplete: Mapping[str, int], with_course: bool = True) -> Steps:
        """The counts for the Snapshot."""
        return Steps(
            completed=self._completed,
            incomplete=incomplete,
            excluded=dict(self._excluded),
            last_completed_at=self._last_at,
            histogram=StepHistogram(
                HISTOGRAM_BOUNDS_SECONDS, tuple(self._counts.tolist()), self._sum_ns / 1e9
            ),
            quantiles_seconds=self._whole.quantiles_seconds(),
            lengths=self._whole.lengths(),
            parts=self._course.parts(self._last_at, self._last_end_ns) if with_course else (),
        )

    def lately(self) -> tuple[Statistics, Statistics]:
        """Statistics of the last steps, and of the very last of them."""
        return self._window.statistics()

    def whole(self) -> Statistics:
        """Statistics of all steps."""
        return self._whole.statistics()

    def outliers(self) -> tuple[Outlier, ...]:
        """The last steps that stood out."""
        return self._outliers.shown()

    def memory_trends(self) -> dict[int, MemoryTrend]:
        """How each rank's memory went over the run."""
        return self._whole.memory_trends()


def _first(tags: int) -> Tag:
    return Tag(tags & -tags)

"""What became of the steps: completed, left out, given up, and how long they took."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.whole import WholeRun
from traceml.sidecar.window import Window
from traceml.snapshot import Statistics, StepHistogram, Steps
from traceml.wire.tags import Tag

HISTOGRAM_BOUNDS_SECONDS = tuple(0.001 * 2**power for power in range(20))  # 1 ms to 524 s


@saved
class StepBook:
    """Keeps both scopes and the counts, from one stream of completed steps."""

    def __init__(self) -> None:
        self._window = Window()
        self._whole = WholeRun()
        self._completed = 0
        self._excluded: Counter[str] = Counter({tag.label: 0 for tag in Tag})
        self._last_at: float | None = None
        self._counts = np.zeros(len(HISTOGRAM_BOUNDS_SECONDS) + 1, dtype=np.int64)
        self._sum_ns = 0.0

    def add(self, steps: AlignedSteps, now: float) -> None:
        """Take completed steps; tagged ones are counted and left out of the statistics."""
        self._completed += len(steps.step)
        self._last_at = now
        for tags in steps.tags[steps.tags > 0]:
            self._excluded[_first(int(tags)).label] += 1
        values = steps.values[steps.tags == 0]
        if not len(values):
            return
        self._window.add(steps.ranks, values)
        self._whole.add(steps.ranks, values)
        lengths = values[:, :, 0].max(axis=1)
        np.add.at(self._counts, np.searchsorted(HISTOGRAM_BOUNDS_SECONDS, lengths / 1e9), 1)
        self._sum_ns += float(lengths.sum())

    def steps(self, incomplete: Mapping[str, int]) -> Steps:
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
        )

    def window(self) -> Statistics:
        """Statistics of the last steps."""
        return self._window.statistics()

    def whole(self) -> Statistics:
        """Statistics of all steps."""
        return self._whole.statistics()


def _first(tags: int) -> Tag:
    return Tag(tags & -tags)

"""The last completed steps, tagged ones left out: what live views and alerts look at."""

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.statistics import RESIDENT, capped_mean, statistics
from traceml.snapshot import Statistics
from traceml.wire.columns import DURATIONS, VALUES, Matrix

WINDOW_STEPS = 100


@saved
class Window:
    """A ring of step x rank x VALUES for one set of ranks."""

    def __init__(self, length: int = WINDOW_STEPS) -> None:
        self._length = length
        self._clear(())

    def add(self, ranks: tuple[int, ...], values: Matrix) -> None:
        """Take completed steps; other ranks than before begin a new window."""
        if ranks != self._ranks:
            self._clear(ranks)
        values = values[-self._length :]
        slots = (self._written + np.arange(len(values))) % self._length
        self._ring[slots] = values
        self._written += len(values)

    def statistics(self) -> Statistics:
        """The statistics of what is in the window."""
        steps = min(self._written, self._length)
        held = self._ring[:steps]
        if not steps:
            return statistics(0, (), np.empty((0, len(DURATIONS))), {})
        peaks = np.fmax.reduce(held[:, :, RESIDENT], axis=0)
        return statistics(
            steps,
            self._ranks,
            capped_mean(held[:, :, : len(DURATIONS)]),
            {r: float(p) for r, p in zip(self._ranks, peaks, strict=True) if np.isfinite(p)},
        )

    def _clear(self, ranks: tuple[int, ...]) -> None:
        self._ranks = ranks
        self._ring = np.full((self._length, len(ranks), len(VALUES)), np.nan)
        self._written = 0

"""How memory went over the run, in constant memory: means over parts of equal length.

When the parts are full, each two become one, and from then on each is twice as long.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.contest import Flags
from traceml.sidecar.shapes import Count, RankNumber, Shape, Within
from traceml.snapshot import MemoryTrend
from traceml.wire.columns import Matrix

PARTS = 400
BANDS = ((0.15, 0.25), (0.45, 0.55), (0.90, 1.0))  # baseline, middle, recent: of all steps

EIGHTHS = 8  # of the time since the baseline


def certainty(series: Matrix) -> Matrix:
    """How surely each column rises, in standard deviations of what chance makes of its order.

    It is the rank correlation of values and time: how far values scatter, and how evenly,
    does not matter. NaN is left out; equal values count as falling.
    """
    known = np.isfinite(series)
    length = known.sum(axis=0)
    latest_first = np.argsort(series[::-1], axis=0, kind="stable")  # NaN last
    place = np.empty_like(latest_first)
    np.put_along_axis(place, latest_first, np.arange(len(series))[:, np.newaxis], axis=0)
    apart = np.where(known, place[::-1] - (np.cumsum(known, axis=0) - 1), 0)
    few = length < 2
    pairs = np.where(few, 1, length * (length**2 - 1))
    correlation = 1.0 - 6.0 * (apart**2).sum(axis=0) / pairs
    return np.where(few, 0.0, correlation * np.sqrt(np.maximum(length - 1, 0)))


@saved
class Trend:
    """One series a rank; other ranks than before begin new ones."""

    _ranks: tuple[RankNumber, ...]
    _stride: Annotated[int, Within(1, 2**50)]
    _steps: Count
    _sums: Annotated[Matrix, Shape(PARTS, None)]
    _counts: Annotated[Matrix, Shape(PARTS, None)]

    def __init__(self) -> None:
        self._clear(())

    def is_sound(self) -> bool:
        """Whether every rank has its column, and the next step its place."""
        columns = {len(self._ranks), self._sums.shape[1], self._counts.shape[1]}
        return len(columns) == 1 and self._steps < PARTS * self._stride

    def add(self, ranks: tuple[int, ...], memory: Matrix) -> None:
        """Take the memory of steps (step x rank)."""
        if ranks != self._ranks:
            self._clear(ranks)
        while len(memory):
            room = PARTS * self._stride - self._steps
            self._fill(memory[:room])
            memory = memory[room:]
            if self._steps == PARTS * self._stride:
                self._fold()

    def trends(self) -> dict[int, MemoryTrend]:
        """The bands of each rank that has a figure in all of them."""
        used = -(-self._steps // self._stride)
        if used < 20:  # a band of a tenth would be a single part
            return {}
        bands = self._means(used, BANDS)
        edges = np.linspace(BANDS[0][0], 1.0, EIGHTHS + 1)
        rises = np.diff(self._means(used, list(pairwise(edges))), axis=0).max(axis=0)
        figures = np.vstack((bands, rises, self._certainties(used, bands[2] > bands[0]))).T
        known = np.isfinite(figures).all(axis=1).tolist()
        return {
            rank: MemoryTrend(self._steps, *of)
            for rank, of, is_known in zip(self._ranks, figures.tolist(), known, strict=True)
            if is_known
        }

    def _means(self, used: int, bands: Sequence[tuple[float, float]]) -> Matrix:
        """Band x rank."""
        parts = [slice(round(low * used), max(round(high * used), 1)) for low, high in bands]
        with np.errstate(invalid="ignore"):
            return np.stack(
                [self._sums[part].sum(axis=0) / self._counts[part].sum(axis=0) for part in parts]
            )

    def _certainties(self, used: int, risen: Flags) -> Matrix:
        """How surely each rank's series rises since the baseline; 0 for those that did not."""
        since = slice(round(BANDS[0][0] * used), used)
        certainties = np.zeros(len(risen))
        with np.errstate(invalid="ignore"):
            parts = self._sums[since, risen] / self._counts[since, risen]
        certainties[risen] = certainty(parts)
        return certainties

    def _fill(self, memory: Matrix) -> None:
        parts = (self._steps + np.arange(len(memory))) // self._stride
        known = np.isfinite(memory)
        at = np.broadcast_to(parts[:, np.newaxis], memory.shape)[known]
        rank = np.broadcast_to(np.arange(memory.shape[1]), memory.shape)[known]
        np.add.at(self._sums, (at, rank), memory[known])
        np.add.at(self._counts, (at, rank), 1.0)
        self._steps += len(memory)

    def _fold(self) -> None:
        half = PARTS // 2
        for parts in (self._sums, self._counts):
            parts[:half] = parts[0::2] + parts[1::2]
            parts[half:] = 0.0
        self._stride *= 2

    def _clear(self, ranks: tuple[int, ...]) -> None:
        self._ranks = ranks
        self._stride = 1
        self._steps = 0
        self._sums = np.zeros((PARTS, len(ranks)))
        self._counts = np.zeros((PARTS, len(ranks)))

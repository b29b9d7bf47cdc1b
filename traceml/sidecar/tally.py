"""Sums over the steps of a scope: what the ranks did to each other, step by step.

Added one step after the other, so that it does not matter in which parts they came.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.contest import OWN_PHASES, Contest
from traceml.sidecar.places import WIDTH, idle_ratio, wait_shares
from traceml.sidecar.shapes import ByRank, Count, Row, Shape, is_numbered
from traceml.wire.columns import Integers, Matrix

_WEIGHT, _LATE, _LOST = range(3)
_add_at: Any = np.add.at  # its types know of no index in several dimensions


@saved
class Moments:
    """Two quantities that may explain each other: count, sums, squares and products."""

    _sums: Annotated[Matrix, Shape(6)]

    def __init__(self) -> None:
        self._sums = np.zeros(6)

    def add(self, cause: Matrix, effect: Matrix) -> None:
        """Take pairs; those with a NaN are left out."""
        known = np.isfinite(cause) & np.isfinite(effect)
        x, y = cause[known], effect[known]
        for place, values in enumerate((np.ones_like(x), x, y, x * x, y * y, x * y)):
            self._sums[place] = np.cumsum(np.concatenate((self._sums[[place]], values)))[-1]

    def explained_ratio(self) -> float | None:
        """The share of the effect's variance that goes with the cause; None if that is constant."""
        count, x, y, xx, yy, xy = self._sums.tolist()
        if count < 2:
            return None
        cause, effect = xx / count - (x / count) ** 2, yy / count - (y / count) ** 2
        if cause <= 1e-9 * (x / count) ** 2 or effect <= 0:
            return None
        covariance = xy / count - x / count * (y / count)
        return float(min(covariance**2 / (cause * effect), 1.0)) if covariance > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What one rank did to the others."""

    late_ratio: dict[str, float]  # by phase: how much of its excess there made it late
    lost_seconds: dict[str, float]  # that the others waited for it, by where it was slow
    led_ratio: float  # of the steps: those in which they waited for it
    elements: float | None  # the mean size of its batches
    wait_shares: dict[str, float]  # by place: of its waiting
    idle_ratio: float | None  # of its steps: what its device idled


@saved
class Tally:
    """Per rank: where its excess was, whether it was late with it, what it cost, how often."""

    steps: Count
    _columns: ByRank
    _phases: Annotated[Matrix, Shape(None, 3, len(OWN_PHASES))]
    _led: Row
    _elements: Annotated[Matrix, Shape(None, 2)]
    _parts: Annotated[Matrix, Shape(None, 2, WIDTH)]  # how often known, and the sums
    length_by_batch: Moments
    imbalance_by_batch: Moments

    def __init__(self) -> None:
        self.steps = 0
        self._columns = {}
        self._phases = np.zeros((0, 3, len(OWN_PHASES)))
        self._led = np.zeros(0)
        self._elements = np.zeros((0, 2))
        self._parts = np.zeros((0, 2, WIDTH))
        self.length_by_batch = Moments()
        self.imbalance_by_batch = Moments()

    def is_sound(self) -> bool:
        """Whether every rank has its row."""
        of_ranks = (self._phases, self._led, self._elements, self._parts)
        return is_numbered(self._columns) and {len(self._columns)} == set(map(len, of_ranks))

    def add(self, ranks: tuple[int, ...], steps: Contest, elements: Matrix, parts: Matrix) -> None:
        """Take steps; `elements` is step x rank, `parts` (see `places`) has a third axis."""
        columns = np.array([self._columns.setdefault(r, len(self._columns)) for r in ranks])
        self._grow()
        self.steps += len(steps.length)
        self._add_phases(columns, steps)
        _add(self._elements[:, 0], columns, np.isfinite(elements))
        _add(self._elements[:, 1], columns, np.nan_to_num(elements))
        _add(self._parts, columns, np.stack((np.isfinite(parts), np.nan_to_num(parts)), axis=2))
        self.length_by_batch.add(elements.max(axis=1), steps.length)
        if len(ranks) > 1:
            work, size = _apart(steps.own), _apart(elements)
            self.imbalance_by_batch.add(size.reshape(-1), work.reshape(-1))

    def accounts(self) -> dict[int, Account]:
        """By rank."""
        with np.errstate(invalid="ignore"):  # no excess, of which nothing made it late
            late = (self._phases[:, _LATE] / self._phases[:, _WEIGHT]).tolist()
        lost = (self._phases[:, _LOST] / 1e9).tolist()
        led = (self._led / max(self.steps, 1)).tolist()
        elements, parts = self._elements.tolist(), self._parts.tolist()
        rows = zip(self._columns, late, lost, led, elements, parts, strict=True)
        return {
            rank: Account(
                {
                    phase: ratio
                    for phase, ratio in zip(OWN_PHASES, ratios, strict=True)
                    if ratio == ratio
                },
                dict(zip(OWN_PHASES, seconds, strict=True)),
                share,
                total / count if count else None,
                wait_shares(*sums),
                idle_ratio(*sums),
            )
            for rank, ratios, seconds, share, (count, total), sums in rows
        }

    def _add_phases(self, columns: Integers, steps: Contest) -> None:
        _add(self._phases[:, _WEIGHT], columns, steps.weight)
        _add(self._phases[:, _LATE], columns, steps.weight * steps.late)
        led = steps.leader >= 0
        leaders = columns[steps.leader[led]]
        _add_at(self._phases, (leaders, _LOST, steps.phase[led]), steps.lost[led])
        _add_at(self._led, leaders, 1.0)

    def _grow(self) -> None:
        more = len(self._columns) - len(self._led)
        if more > 0:
            self._phases = np.pad(self._phases, ((0, more), (0, 0), (0, 0)))
            self._led = np.pad(self._led, (0, more))
            self._elements = np.pad(self._elements, ((0, more), (0, 0)))
            self._parts = np.pad(self._parts, ((0, more), (0, 0), (0, 0)))


def _add(sums: Matrix, columns: Integers, steps: Matrix) -> None:
    """Add to these columns of the sums each of the steps, one after the other."""
    held = sums[columns]
    for step in steps:
        held += step
    sums[columns] = held


def _apart(values: Matrix) -> Matrix:
    """How far each rank is from the mean of its step."""
    return np.asarray(values - values.mean(axis=1, keepdims=True))

"""The run in order, in constant memory: parts of equally many steps, from the first to the last.

When the parts are full, each two become one, and from then on each is twice as long.
Added one step after the other, so that it does not matter in which pieces they came.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.clock import KEPT
from traceml.sidecar.memory import SHOWN, of_kind
from traceml.sidecar.shapes import ByRank, Count, Shape, Within, is_numbered
from traceml.snapshot import Part
from traceml.wire.columns import DURATIONS, PHASES, Integers, Matrix

PARTS = 256
_NS = 1e9

_PHASES = slice(KEPT.index(DURATIONS[1]), len(DURATIONS))
_MEMORY = len(PHASES)  # the column behind the phases
_COLUMNS = _MEMORY + 1
_at: Any = np.add.at  # its types know of no array of another shape


@saved
class Course:
    """What steps were like, part by part; tagged ones are only counted."""

    _stride: Annotated[int, Within(1, 2**50)]
    _steps: Count
    _ranks: ByRank
    _length_ns: Annotated[Matrix, Shape(PARTS)]
    _longest_ns: Annotated[Matrix, Shape(PARTS)]
    _ended_ns: Annotated[Matrix, Shape(PARTS)]
    _excluded: Annotated[Integers, Shape(PARTS)]
    _sums: Annotated[Matrix, Shape(PARTS, None, _COLUMNS)]
    _counts: Annotated[npt.NDArray[np.int32], Shape(PARTS, None, _COLUMNS)]

    def __init__(self) -> None:
        self._stride = 1
        self._steps = 0
        self._ranks = {}
        self._length_ns = np.zeros(PARTS)
        self._longest_ns = np.zeros(PARTS)
        self._ended_ns = np.zeros(PARTS)
        self._excluded = np.zeros(PARTS, dtype=np.int64)
        self._sums = np.zeros((PARTS, 0, _COLUMNS))
        self._counts = np.zeros((PARTS, 0, _COLUMNS), dtype=np.int32)

    def is_sound(self) -> bool:
        """Whether every rank has its column, and the next step its place."""
        columns = {len(self._ranks), self._sums.shape[1], self._counts.shape[1]}
        has_room = self._steps < PARTS * self._stride
        return len(columns) == 1 and has_room and is_numbered(self._ranks)

    def add(
        self, ranks: tuple[int, ...], values: Matrix, length_ns: Matrix, ended_ns: Matrix
    ) -> None:
        """Take completed steps (step x rank x KEPT), how long each took and when it ended."""
        places = np.array([self._ranks.setdefault(rank, len(self._ranks)) for rank in ranks])
        self._grow()
        figures = _figures(values)
        while len(figures):
            room = PARTS * self._stride - self._steps
            self._fill(places, figures[:room], length_ns[:room], ended_ns[:room])
            figures, length_ns, ended_ns = figures[room:], length_ns[room:], ended_ns[room:]
            if self._steps == PARTS * self._stride:
                self._fold()

    def exclude(self, followed: Integers) -> None:
        """Count steps that are left out; so many that are not came before each, by now."""
        parts = np.maximum(followed - 1, 0) // self._stride
        np.add.at(self._excluded, parts, 1)

    @property
    def steps(self) -> int:
        """How many have been added."""
        return self._steps

    def parts(self, last_at: float | None, last_ns: float) -> tuple[Part, ...]:
        """The run so far; its last step ended then, by our clock and by the ranks'."""
        return () if last_at is None else tuple(self._parts(last_at, last_ns))

    def _parts(self, last_at: float, last_ns: float) -> Iterator[Part]:
        used = -(-self._steps // self._stride)
        before = np.nan_to_num(last_ns - np.maximum.accumulate(self._ended_ns[:used])) / _NS
        with np.errstate(invalid="ignore"):
            means = self._sums[:used] / self._counts[:used]  # part x rank x column
        medians = _lower_medians(means)
        worst = np.fmax.reduce(means[:, :, _MEMORY], axis=1, initial=np.nan)
        for part in range(used):
            steps = min(self._stride, self._steps - part * self._stride)
            yield Part(
                steps=steps,
                seconds=float(self._length_ns[part]) / steps / _NS,
                longest_seconds=float(self._longest_ns[part]) / _NS,
                excluded=int(self._excluded[part]),
                ended_at=last_at - max(float(before[part]), 0.0),
                phases={
                    phase: ns / _NS
                    for phase, ns in zip(PHASES, medians[part, :_MEMORY].tolist(), strict=True)
                    if ns == ns  # not NaN: it was measured
                },
                memory_median_bytes=_known(medians[part, _MEMORY]),
                memory_worst_bytes=_known(worst[part]),
            )

    def _fill(self, places: Integers, figures: Matrix, length_ns: Matrix, ended_ns: Matrix) -> None:
        parts = (self._steps + np.arange(len(figures))) // self._stride
        np.add.at(self._length_ns, parts, length_ns)
        np.maximum.at(self._longest_ns, parts, length_ns)
        np.fmax.at(self._ended_ns, parts, ended_ns)
        cells = (parts[:, np.newaxis] * len(self._ranks) + places)[:, :, np.newaxis]
        flat = cells * _COLUMNS + np.arange(_COLUMNS)
        known = np.isfinite(figures)
        _at(self._sums.reshape(-1), flat[known], figures[known])
        _at(self._counts.reshape(-1), flat[known], 1)
        self._steps += len(figures)

    def _fold(self) -> None:
        half = PARTS // 2
        for sums in (self._length_ns, self._excluded, self._sums, self._counts):
            sums[:half] = sums[0::2] + sums[1::2]
            sums[half:] = 0
        for latest in (self._longest_ns, self._ended_ns):
            latest[:half] = np.maximum(latest[0::2], latest[1::2])
            latest[half:] = 0.0
        self._stride *= 2

    def _grow(self) -> None:
        more = len(self._ranks) - self._sums.shape[1]
        if more > 0:
            self._sums = np.pad(self._sums, ((0, 0), (0, more), (0, 0)))
            self._counts = np.pad(self._counts, ((0, 0), (0, more), (0, 0)))


def _figures(values: Matrix) -> Matrix:
    """Step x rank x (phases, memory of the first kind that there is)."""
    first, second = (of_kind(kind, values) for kind in SHOWN)
    memory = np.where(np.isfinite(first), first, second)
    return np.concatenate((values[:, :, _PHASES], memory[:, :, np.newaxis]), axis=2)


def _lower_medians(means: Matrix) -> Matrix:
    """Over the ranks (second axis) that have a value; NaN where none has."""
    if not means.shape[1]:
        return np.full((len(means), means.shape[2]), np.nan)
    ordered = np.sort(means, axis=1)  # NaN last
    middle = (np.isfinite(means).sum(axis=1, keepdims=True) - 1).clip(0) // 2
    return np.asarray(np.take_along_axis(ordered, middle, axis=1)[:, 0])


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

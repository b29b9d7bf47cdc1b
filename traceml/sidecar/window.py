"""The last completed steps, tagged ones left out: what live views and alerts look at."""

import math
from typing import Annotated

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.clock import KEPT
from traceml.sidecar.contest import Contest, Flags, contest
from traceml.sidecar.memory import peaks, retries
from traceml.sidecar.places import parts
from traceml.sidecar.shapes import Count, RankNumber, Shape, Text, Within
from traceml.sidecar.statistics import CAP_QUANTILE, NOTHING, Scope, capped_mean, statistics
from traceml.sidecar.tally import Tally
from traceml.snapshot import Statistics
from traceml.wire.columns import DURATIONS, TIMES, Matrix

WINDOW_STEPS = 100
RECENT_STEPS = 25
_ELEMENTS = KEPT.index("elements")


@saved
class Window:
    """A ring of step x rank x KEPT for one set of ranks."""

    _length: Annotated[int, Within(1, WINDOW_STEPS)]
    _ranks: tuple[RankNumber, ...]
    _groups: tuple[Text, ...]
    _ring: Annotated[Matrix, Shape(None, None, len(KEPT))]
    _on_device: Annotated[Flags, Shape(None)]
    _written: Count

    def __init__(self, length: int = WINDOW_STEPS) -> None:
        self._length = length
        self._clear((), ())

    def is_sound(self) -> bool:
        """Whether every rank has its column, and every step its place."""
        columns = {len(self._ranks), len(self._groups), self._ring.shape[1]}
        return len(columns) == 1 and {self._length} == {len(self._ring), len(self._on_device)}

    def add(
        self, ranks: tuple[int, ...], groups: tuple[str, ...], values: Matrix, on_device: Flags
    ) -> None:
        """Take completed steps; other ranks than before begin a new window."""
        if (ranks, groups) != (self._ranks, self._groups):
            self._clear(ranks, groups)
        kept = slice(-self._length, None)
        slots = (self._written + np.arange(len(values)))[kept] % self._length
        self._ring[slots] = values[kept]
        self._on_device[slots] = on_device[kept]
        self._written += len(values)

    def statistics(self) -> tuple[Statistics, Statistics]:
        """The statistics of what is in the window, and of its most recent steps."""
        steps = min(self._written, self._length)
        if not steps:
            return NOTHING, NOTHING
        slots = np.arange(self._written - steps, self._written) % self._length
        held, on_device = self._ring[slots], self._on_device[slots]
        compared = contest(held[:, :, : len(TIMES)], self._groups)
        recent = compared.last(RECENT_STEPS)
        return (
            self._statistics(held, compared, on_device),
            self._statistics(held[-RECENT_STEPS:], recent, on_device[-RECENT_STEPS:]),
        )

    def _statistics(self, held: Matrix, compared: Contest, on_device: Flags) -> Statistics:
        tally = Tally()
        tally.add(self._ranks, compared, held[:, :, _ELEMENTS], parts(held, on_device))
        ordered = np.sort(compared.length)
        return statistics(
            Scope(
                ranks=self._ranks,
                groups=self._groups,
                means_ns=capped_mean(held[:, :, : len(DURATIONS)]),
                quantiles_ns=(_quantile(ordered, 0.5), _quantile(ordered, CAP_QUANTILE)),
                exchange_ns=_capped(compared.exchange),
                imbalance_ns=_capped(compared.imbalance),
                tally=tally,
                on_device=int(on_device.sum()),
                memory_peaks=peaks(self._ranks, held),
                allocation_retries=retries(self._ranks, held),
            )
        )

    def _clear(self, ranks: tuple[int, ...], groups: tuple[str, ...]) -> None:
        self._ranks, self._groups = ranks, groups
        self._ring = np.full((self._length, len(ranks), len(KEPT)), np.nan)
        self._on_device = np.zeros(self._length, dtype=bool)
        self._written = 0


def _quantile(ordered: Matrix, quantile: float) -> float:
    return float(ordered[max(math.ceil(quantile * len(ordered)) - 1, 0)])


def _capped(values: Matrix) -> float:
    return float(capped_mean(values[:, np.newaxis])[0])

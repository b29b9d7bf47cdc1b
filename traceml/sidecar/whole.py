"""The whole run in constant memory: logarithmic histograms that know their sums.

Each rank and duration has buckets 1/16 of an octave wide. Counts give quantiles
to within 4 %; sums make means exact but for the one bucket where the cap lies.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.clock import KEPT
from traceml.sidecar.contest import Contest, Flags, contest
from traceml.sidecar.memory import KINDS, TRENDS, merge, of_kind, peaks, retries
from traceml.sidecar.places import parts
from traceml.sidecar.shapes import ByRank, Count, RankNumber, Shape, Text, is_numbered
from traceml.sidecar.statistics import CAP_QUANTILE, NOTHING, Scope, statistics
from traceml.sidecar.tally import Tally
from traceml.sidecar.trend import Trend
from traceml.snapshot import MemoryTrend, Statistics, StepHistogram
from traceml.wire.columns import DURATIONS, TIMES, Integers, Matrix

BUCKETS_PER_OCTAVE = 16
BUCKETS = 42 * BUCKETS_PER_OCTAVE  # 1 ns to more than an hour

_ELEMENTS = KEPT.index("elements")

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def bucket_of(values: Matrix) -> Integers:
    """The bucket each value falls into."""
    octaves = np.log2(np.maximum(values, 1.0))
    return np.minimum((octaves * BUCKETS_PER_OCTAVE).astype(np.int64), BUCKETS - 1)


@saved
class Sketch:
    """Counts and sums per bucket for `rows` independent streams."""

    _counts: Annotated[Integers, Shape(None, BUCKETS)]
    _sums: Annotated[Matrix, Shape(None, BUCKETS)]

    def __init__(self, rows: int = 0) -> None:
        self._counts = np.zeros((rows, BUCKETS), dtype=np.int64)
        self._sums = np.zeros((rows, BUCKETS))

    def is_sound(self) -> bool:
        """Whether all streams have both."""
        return len(self._counts) == len(self._sums)

    def __len__(self) -> int:
        return len(self._counts)

    def grow(self, rows: int) -> None:
        """Make room for more streams."""
        more = rows - len(self._counts)
        if more > 0:
            self._counts = np.pad(self._counts, ((0, more), (0, 0)))
            self._sums = np.pad(self._sums, ((0, more), (0, 0)))

    def add(self, rows: Integers, values: Matrix) -> None:
        """Add `values[:, i]` to stream `rows[i]`; NaN is left out."""
        flat = rows * BUCKETS + bucket_of(np.nan_to_num(values))
        present = np.isfinite(values)
        flat, values = flat[present], values[present]
        np.add.at(self._counts.reshape(-1), flat, 1)
        np.add.at(self._sums.reshape(-1), flat, values)

    def capped_means(self) -> Matrix:
        """Each stream's mean with values above its 95th percentile set to it."""
        used = np.flatnonzero(self._counts.any(axis=0))
        held = slice(used[0], used[-1] + 1) if len(used) else slice(1)
        counts, sums = self._counts[:, held], self._sums[:, held]
        cumulated = np.cumsum(counts, axis=1)
        total = cumulated[:, -1]
        at = _bucket_at(cumulated, CAP_QUANTILE)
        rows = np.arange(len(at))
        with np.errstate(invalid="ignore", divide="ignore"):
            cap = sums[rows, at] / counts[rows, at]
            below = np.cumsum(sums, axis=1)[rows, at]
            above = total - cumulated[rows, at]
            return np.asarray((below + cap * above) / total)

    def quantile(self, row: int, quantile: float) -> float:
        """The mean of the bucket in which a stream's quantile lies; NaN for none."""
        at = int(_bucket_at(np.cumsum(self._counts[[row]], axis=1), quantile)[0])
        count = self._counts[row, at]
        return float(self._sums[row, at] / count) if count else float("nan")

    def histogram(self, row: int) -> StepHistogram:
        """A stream's own buckets, from the first that is used to the last."""
        used = np.flatnonzero(self._counts[row])
        if not len(used):
            return StepHistogram((), (0,), 0.0)
        first, last = int(used[0]), int(used[-1])
        edges = 2.0 ** (np.arange(first, last + 2) / BUCKETS_PER_OCTAVE) / 1e9
        counts = self._counts[row, first : last + 1].tolist()
        total = float(self._sums[row].sum()) / 1e9
        return StepHistogram(tuple(edges.tolist()), (0, *counts, 0), total)


def _bucket_at(cumulated: Integers, quantile: float) -> Integers:
    """For each stream the bucket in which its quantile lies."""
    wanted = np.maximum(np.ceil(quantile * cumulated[:, -1:]), 1)
    return np.asarray(np.argmax(cumulated >= wanted, axis=1))


@saved
class WholeRun:
    """Statistics of every completed step since the run began, tagged ones left out."""

    _columns: ByRank
    _groups: dict[RankNumber, Text]
    _durations: Sketch
    _steps: Sketch  # length, exchange and imbalance
    _longest_ns: float
    _on_device: Count
    _tally: Tally
    _peaks: dict[str, dict[RankNumber, float]]
    _retries: Counter[RankNumber]
    _trends: dict[str, Trend]

    def __init__(self) -> None:
        self._columns = {}
        self._groups = {}
        self._durations = Sketch()
        self._steps = Sketch(3)
        self._longest_ns = 0.0
        self._on_device = 0
        self._tally = Tally()
        self._peaks = {}
        self._retries = Counter()
        self._trends = {kind: Trend() for kind in TRENDS}

    def is_sound(self) -> bool:
        """Whether every rank has its rows."""
        rows = (len(self._durations), len(self._steps))
        is_whole = rows == (len(self._columns) * len(DURATIONS), 3)
        same_ranks = self._groups.keys() == self._columns.keys()
        kinds = tuple(self._trends) == TRENDS and self._peaks.keys() <= set(KINDS)
        return is_whole and same_ranks and kinds and is_numbered(self._columns)

    def add(
        self, ranks: tuple[int, ...], groups: tuple[str, ...], values: Matrix, on_device: Flags
    ) -> Contest:
        """Take completed steps (step x rank x KEPT); returns how the ranks compare in them."""
        columns = np.array([self._columns.setdefault(r, len(self._columns)) for r in ranks])
        self._groups.update(zip(ranks, groups, strict=True))
        self._durations.grow(len(self._columns) * len(DURATIONS))
        rows = (columns[:, np.newaxis] * len(DURATIONS) + np.arange(len(DURATIONS))).reshape(-1)
        self._durations.add(rows, values[:, :, : len(DURATIONS)].reshape(len(values), -1))
        compared = contest(values[:, :, : len(TIMES)], groups)
        figures = (compared.length, compared.exchange, compared.imbalance)
        self._steps.add(np.arange(3), np.stack(figures, axis=1))
        self._longest_ns = max(self._longest_ns, float(compared.length.max()))
        self._on_device += int(on_device.sum())
        self._tally.add(ranks, compared, values[:, :, _ELEMENTS], parts(values, on_device))
        merge(self._peaks, peaks(ranks, values))
        self._retries.update(retries(ranks, values))
        for kind, trend in self._trends.items():
            trend.add(ranks, of_kind(kind, values))
        return compared

    def statistics(self) -> Statistics:
        """The statistics of the run so far."""
        if not self._tally.steps:
            return NOTHING
        exchange, imbalance = self._steps.capped_means()[1:]
        return statistics(
            Scope(
                ranks=tuple(self._columns),
                groups=[self._groups[rank] for rank in self._columns],
                means_ns=self._durations.capped_means().reshape(-1, len(DURATIONS)),
                quantiles_ns=(self._steps.quantile(0, 0.5), self._steps.quantile(0, CAP_QUANTILE)),
                exchange_ns=exchange,
                imbalance_ns=imbalance,
                tally=self._tally,
                on_device=self._on_device,
                memory_peaks={kind: dict(by_rank) for kind, by_rank in self._peaks.items()},
                allocation_retries=dict(self._retries),
            )
        )

    def quantiles_seconds(self) -> Mapping[str, float]:
        """How long completed steps took."""
        if not self._tally.steps:
            return {}
        quantiles = {name: self._steps.quantile(0, q) / 1e9 for name, q in QUANTILES.items()}
        return {**quantiles, "max": self._longest_ns / 1e9}

    def lengths(self) -> StepHistogram:
        """Completed steps by length."""
        return self._steps.histogram(0)

    def memory_trends(self) -> dict[int, MemoryTrend]:
        """How each rank's memory went over the run. Of a rank with a device, never its resident
        set, which is of other memory than its peaks and its limit.
        """
        floors, resident = (self._trends[kind].trends() for kind in TRENDS)
        on_device = self._peaks.get("allocated", {})
        return {rank: of for rank, of in resident.items() if rank not in on_device} | floors

"""From per-rank values to the statistics that every output shows.

A rank's value is a mean over the scope in which steps above the rank's own 95th
percentile are set to it. Medians over ranks are lower medians: a real rank's
value, and at two ranks the faster one's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from traceml.snapshot import PhaseSpread, RankTimes, Spread, Statistics
from traceml.wire.columns import DURATIONS, PHASES, VALUES, Matrix

CAP_QUANTILE = 0.95
RESIDENT = VALUES.index("resident_bytes")
_NS = 1e9
_WAIT = DURATIONS.index("collective_wait_ns")


def capped_mean(values: Matrix) -> Matrix:
    """Mean over the first axis with values above the 95th percentile set to it; NaN is absent."""
    present = np.isfinite(values).sum(axis=0)
    ordered = np.sort(values, axis=0)  # NaN last
    index = np.maximum(np.ceil(CAP_QUANTILE * present).astype(np.int64) - 1, 0)
    cap = np.take_along_axis(ordered, index[np.newaxis], axis=0)
    capped = np.minimum(ordered, cap)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(capped, axis=0) / np.where(present, present, np.nan))


def spread(values: Mapping[int, float]) -> Spread | None:
    """Lower median, worst and skew of one quantity over ranks."""
    if not values:
        return None
    ordered = sorted(values.values())
    median = ordered[(len(ordered) - 1) // 2]
    worst_rank = max(values, key=lambda rank: values[rank])
    worst = values[worst_rank]
    return Spread(median, worst, worst_rank, (worst - median) / median if median > 0 else None)


def statistics(
    steps: int, ranks: Sequence[int], means_ns: Matrix, memory_peaks: Mapping[int, float]
) -> Statistics:
    """Statistics of a scope from each rank's mean durations (rank x DURATIONS)."""
    times = {
        rank: _rank_times(row / _NS)
        for rank, row in zip(ranks, means_ns, strict=True)
        if np.isfinite(row[0])
    }
    step = spread({rank: of.step_seconds for rank, of in times.items()})
    typical = step.median if step else 0.0
    return Statistics(
        steps=steps,
        step=step,
        phases=_phase_spreads(times, typical),
        ranks=times,
        memory_peaks=memory_peaks,
        memory=spread(memory_peaks),
    )


def _rank_times(row: Matrix) -> RankTimes:
    phases = {
        phase: float(seconds)
        for phase, seconds in zip(PHASES, row[1:], strict=True)
        if np.isfinite(seconds)
    }
    own = sum(seconds for phase, seconds in phases.items() if phase != "collective_wait")
    return RankTimes(float(row[0]), own if "backward" in phases else None, phases)


def _phase_spreads(times: Mapping[int, RankTimes], typical: float) -> dict[str, PhaseSpread]:
    spreads = {}
    for phase in PHASES:
        over = spread({r: of.phases[phase] for r, of in times.items() if phase in of.phases})
        if over is not None:
            spreads[phase] = PhaseSpread(over, over.median / typical if typical > 0 else None)
    return spreads

"""From per-rank values to the statistics that every output shows.

A rank's value is a mean over the scope in which steps above the rank's own 95th
percentile are set to it. Medians over ranks are lower medians: a real rank's
value, and at two ranks the faster one's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceml.sidecar.tally import Account, Tally
from traceml.snapshot import Lengths, PhaseSpread, RankTimes, Spread, Statistics
from traceml.wire.columns import PHASES, Matrix

CAP_QUANTILE = 0.95
_NS = 1e9


NOTHING = Statistics(
    steps=0, step=None, phases={}, ranks={}, lengths=None, on_device_ratio=0.0, memory_peaks={},
    memory={}, allocation_retries={},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scope:
    """What a scope keeps of its steps, ranks in the order of `ranks`."""

    ranks: Sequence[int]
    groups: Sequence[str]
    means_ns: Matrix  # rank x DURATIONS, capped
    quantiles_ns: tuple[float, float]  # of the steps' lengths: median and 95th percentile
    exchange_ns: float  # capped means; NaN if there is none
    imbalance_ns: float
    tally: Tally
    on_device: int  # steps
    memory_peaks: Mapping[str, Mapping[int, float]]
    allocation_retries: Mapping[int, int]  # by rank, those that had to


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


def statistics(scope: Scope) -> Statistics:
    """The statistics of a scope."""
    tally, accounts = scope.tally, scope.tally.accounts()
    is_alone = len(scope.ranks) == 1
    times = {
        rank: _rank_times(group, row, accounts[rank], is_alone)
        for rank, group, row in zip(
            scope.ranks, scope.groups, (scope.means_ns / _NS).tolist(), strict=True
        )
        if math.isfinite(row[0])
    }
    step = spread({rank: of.step_seconds for rank, of in times.items()})
    typical = step.median if step else 0.0
    return Statistics(
        steps=tally.steps,
        step=step,
        phases=_phase_spreads(times, typical),
        ranks=times,
        lengths=_lengths(scope),
        on_device_ratio=scope.on_device / tally.steps,
        memory_peaks=scope.memory_peaks,
        memory={
            kind: over
            for kind, peaks in scope.memory_peaks.items()
            if (over := spread(peaks)) is not None
        },
        allocation_retries=scope.allocation_retries,
    )


def _lengths(scope: Scope) -> Lengths:
    median, p95 = scope.quantiles_ns
    return Lengths(
        p50_seconds=median / _NS,
        p95_seconds=p95 / _NS,
        exchange_seconds=_seconds(scope.exchange_ns),
        imbalance_seconds=_seconds(scope.imbalance_ns),
        length_explained_ratio=scope.tally.length_by_batch.explained_ratio(),
        imbalance_explained_ratio=scope.tally.imbalance_by_batch.explained_ratio(),
    )


def _seconds(ns: float) -> float | None:
    return float(ns) / _NS if np.isfinite(ns) else None


def _rank_times(group: str, row: list[float], account: Account, is_alone: bool) -> RankTimes:
    phases = {
        phase: seconds
        for phase, seconds in zip(PHASES, row[1:], strict=True)
        if math.isfinite(seconds)
    }
    waited = phases.get("collective_wait")
    idle = account.idle_ratio
    return RankTimes(
        step_seconds=row[0],
        own_seconds=_own(phases) if is_alone or waited is not None else None,
        phases=phases,
        group=group,
        late_ratio=account.late_ratio,
        lost_seconds=account.lost_seconds,
        led_ratio=account.led_ratio,
        elements=account.elements,
        wait_seconds={p: share * (waited or 0.0) for p, share in account.wait_shares.items()},
        idle_seconds=None if idle is None else idle * row[0],
    )


def _own(phases: Mapping[str, float]) -> float | None:
    own = sum([seconds for phase, seconds in phases.items() if phase != "collective_wait"])
    return own if "backward" in phases else None


def _phase_spreads(times: Mapping[int, RankTimes], typical: float) -> dict[str, PhaseSpread]:
    spreads = {}
    for phase in PHASES:
        over = spread({r: of.phases[phase] for r, of in times.items() if phase in of.phases})
        if over is not None:
            spreads[phase] = PhaseSpread(over, over.median / typical if typical > 0 else None)
    return spreads

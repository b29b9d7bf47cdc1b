"""Scopes made by hand, for what is computed of them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.builders import make_records
from traceml.sidecar.clock import on_one_clock
from traceml.sidecar.contest import Flags, contest
from traceml.sidecar.places import WIDTH
from traceml.sidecar.statistics import Scope
from traceml.sidecar.tally import Tally
from traceml.wire.columns import DURATIONS, TIMES, Matrix, Records

MS = 1e6


def means_of(**milliseconds: float) -> list[float]:
    """A rank's mean durations; those not named were not measured."""
    return [milliseconds.get(name.removesuffix("_ns"), math.nan) * MS for name in DURATIONS]


def scope_of(
    *means_ns: list[float],
    ranks: Sequence[int] | None = None,
    exchange_ns: float = math.nan,
    steps: int = 1,
    on_device: int = 0,
    memory_peaks: Mapping[str, Mapping[int, float]] | None = None,
) -> Scope:
    """A scope of ranks with these means, in whose steps nobody was compared."""
    numbers = tuple(range(len(means_ns))) if ranks is None else tuple(ranks)
    groups = ("",) * len(numbers)
    times = np.ones((steps, len(numbers), len(TIMES)))
    tally = Tally()
    nothing = np.full((*times.shape[:2], WIDTH), np.nan)
    tally.add(numbers, contest(times, groups), nothing[:, :, 0], nothing)
    return Scope(
        ranks=numbers,
        groups=groups,
        means_ns=np.array(means_ns),
        quantiles_ns=(10 * MS, 20 * MS),
        exchange_ns=exchange_ns,
        imbalance_ns=math.nan,
        tally=tally,
        on_device=on_device,
        memory_peaks=memory_peaks or {},
        allocation_retries={},
    )


def side_by_side(*ranks: Records) -> tuple[Matrix, Flags]:
    """The steps of these ranks, as a window and the whole run take them."""
    return on_one_clock(np.stack([records.values for records in ranks], axis=1))


def lasting(*ranks_ms: Sequence[float]) -> tuple[Matrix, Flags]:
    """Steps in which rank i takes `ranks_ms[i]`."""
    return side_by_side(
        *(make_records(range(len(ms)), step_ns=[m * MS for m in ms]) for ms in ranks_ms)
    )

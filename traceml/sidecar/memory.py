"""What is kept of the memory of steps: peaks by kind, the kind that is followed, retries."""

import math
from collections.abc import Mapping

import numpy as np

from traceml.sidecar.clock import KEPT
from traceml.wire.columns import Matrix

KINDS = ("allocated", "reserved", "rss")
SHOWN = ("allocated", "rss")  # over the run: the first that a rank has
TRENDS = ("floor", "rss")  # judged for growth: the floor alone where there is an allocator

_COLUMNS = {
    "allocated": KEPT.index("allocated_bytes"),
    "reserved": KEPT.index("reserved_bytes"),
    "rss": KEPT.index("resident_bytes"),
    "floor": KEPT.index("floor_bytes"),
}
_RETRIES = KEPT.index("allocation_retries")


def peaks(ranks: tuple[int, ...], values: Matrix) -> dict[str, dict[int, float]]:
    """The highest of each kind by rank; kinds that nobody measured are absent."""
    found: dict[str, dict[int, float]] = {}
    for kind in KINDS:
        highest = np.fmax.reduce(of_kind(kind, values), axis=0).tolist()
        known = {r: peak for r, peak in zip(ranks, highest, strict=True) if math.isfinite(peak)}
        if known:
            found[kind] = known
    return found


def of_kind(kind: str, values: Matrix) -> Matrix:
    """Step x rank: the memory of this kind."""
    return np.asarray(values[:, :, _COLUMNS[kind]])


def retries(ranks: tuple[int, ...], values: Matrix) -> dict[int, int]:
    """How often each rank's allocator had to free memory and try again; ranks that never had
    to are absent.
    """
    often = np.nansum(values[:, :, _RETRIES], axis=0).tolist()
    return {rank: round(times) for rank, times in zip(ranks, often, strict=True) if times}


def merge(into: dict[str, dict[int, float]], more: Mapping[str, Mapping[int, float]]) -> None:
    """Keep the higher of each."""
    for kind, by_rank in more.items():
        mine = into.setdefault(kind, {})
        for rank, peak in by_rank.items():
            mine[rank] = max(mine.get(rank, 0.0), peak)

"""What is kept of the memory of steps: peaks by kind, and the kind that is followed."""

import math
from collections.abc import Mapping

import numpy as np

from traceml.sidecar.clock import KEPT
from traceml.wire.columns import Matrix

KINDS = ("allocated", "reserved", "rss")
FOLLOWED = ("allocated", "rss")  # over the run: the first that a rank has

_COLUMNS = {
    "allocated": KEPT.index("allocated_bytes"),
    "reserved": KEPT.index("reserved_bytes"),
    "rss": KEPT.index("resident_bytes"),
}


def peaks(ranks: tuple[int, ...], values: Matrix) -> dict[str, dict[int, float]]:
    """The highest of each kind by rank; kinds that nobody measured are absent."""
    found: dict[str, dict[int, float]] = {}
    for kind, column in _COLUMNS.items():
        highest = np.fmax.reduce(values[:, :, column], axis=0).tolist()
        known = {r: peak for r, peak in zip(ranks, highest, strict=True) if math.isfinite(peak)}
        if known:
            found[kind] = known
    return found


def of_kind(kind: str, values: Matrix) -> Matrix:
    """Step x rank: the memory of this kind."""
    return np.asarray(values[:, :, _COLUMNS[kind]])


def merge(into: dict[str, dict[int, float]], more: Mapping[str, Mapping[int, float]]) -> None:
    """Keep the higher of each."""
    for kind, by_rank in more.items():
        mine = into.setdefault(kind, {})
        for rank, peak in by_rank.items():
            mine[rank] = max(mine.get(rank, 0.0), peak)

"""Where ranks waited, and how long their devices idled: parts of times that are told as a whole.

Plain sums by rank give each part's share; the whole is the capped mean of `statistics`,
so that the parts add up to it. In the sums a part counts as its share of its own step, so
that no single long step decides for all.
"""

from collections.abc import Sequence

import numpy as np

from traceml.sidecar.clock import KEPT
from traceml.sidecar.contest import Flags
from traceml.wire.columns import PLACES, TOLD_PLACES, WAITS, Matrix

_STEP = KEPT.index("step_ns")
_SUMMED = [KEPT.index(name) for name in ("collective_wait_ns", *WAITS, "device_idle_ns")]
WIDTH = len(_SUMMED)


def parts(values: Matrix, on_device: Flags) -> Matrix:
    """Of steps (step x rank x KEPT) what is summed; NaN where it was not measured."""
    lengths = values[:, :, [_STEP]]
    found = values[:, :, _SUMMED] / np.where(lengths > 0, lengths, np.nan)
    found[:, :, :-1][np.isnan(found[:, :, 0])] = np.nan
    found[~on_device, :, -1] = np.nan
    return np.asarray(found)


def wait_shares(counts: Sequence[float], sums: Sequence[float]) -> dict[str, float]:
    """Each place's share of a rank's waiting, 1 in all; empty where waits were not measured.

    What no other place has was in backward; a place that was never waited in is absent.
    """
    if not counts[0]:
        return {}
    told = {place: sums[at] for at, place in enumerate(TOLD_PLACES, 1) if counts[at]}
    total = max(sums[0], sum(told.values()))
    shares = {place: of / total if total else 0.0 for place, of in told.items()}
    shares["backward"] = max(1.0 - sum(shares.values()), 0.0)
    return {place: shares[place] for place in PLACES if place in shares}


def idle_ratio(counts: Sequence[float], sums: Sequence[float]) -> float | None:
    """What a rank's device idled of its steps; None where that was not measured."""
    return min(sums[-1] / counts[-1], 1.0) if counts[-1] else None

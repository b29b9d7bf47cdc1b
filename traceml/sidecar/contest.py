"""What each completed step says of its ranks: who worked longer, who was late, who was waited for.

Ranks are compared with the other ranks of their group, those that hold the same share
of the model. Where a figure is missing on one of them, nothing is said of that step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceml.wire.columns import DURATIONS, MARKED, PHASES, TIMES, Integers, Matrix

OWN_PHASES = tuple(phase for phase in PHASES if phase != "collective_wait")
MATERIAL = 0.05  # of a step: whoever makes it longer by less does not lead it

_OWN = [DURATIONS.index(f"{phase}_ns") for phase in OWN_PHASES]
_WAIT = DURATIONS.index("collective_wait_ns")
_ENDS = [TIMES.index(f"{phase}_end_ns") for phase in MARKED]
_END = TIMES.index("end_ns")
_OTHER = OWN_PHASES.index("other")

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Contest:
    """Steps in a row; times in ns, NaN where nothing can be said."""

    length: Matrix  # of a step: its maximum over ranks
    own: Matrix  # step x rank: all but waiting
    excess: Matrix  # step x rank x OWN_PHASES: over the median of the others
    late: Flags  # the same: finished it later than they did, by half of that or more
    weight: Matrix  # the same: how much that step's excess counts for
    exchange: Matrix  # of a step: the shortest wait in it
    imbalance: Matrix  # of a step: the longest own work in it over the median
    leader: Integers  # of a step: the rank (its place) that the others waited for; -1 for none
    phase: Integers  # of a step: where the leader spent its excess (place in OWN_PHASES)
    lost: Matrix  # of a step: what it took longer for that

    def last(self, steps: int) -> "Contest":
        """Of the last so many steps alone."""
        return Contest(**{name: getattr(self, name)[-steps:] for name in self.__slots__})


def contest(times: Matrix, groups: Sequence[str]) -> Contest:
    """Compare the ranks in each step (`times` is step x rank x TIMES)."""
    members = _members(groups)
    length = times[:, :, 0].max(axis=1)
    waits = times[:, :, _WAIT]
    own = times[:, :, 0] - waits
    phases = times[:, :, _OWN]
    excess = phases - others_median(phases, members)
    own_excess = own - others_median(own, members)
    late = _is_late(times, excess, members)
    leader, phase, lost = _leaders(own_excess, excess, late)
    lost = np.where(lost >= MATERIAL * length, lost, 0.0)
    return Contest(
        length=length,
        own=own,
        excess=excess,
        late=late,
        weight=_weights(own, excess),
        exchange=waits.min(axis=1),
        imbalance=np.maximum(_leading(own_excess), 0.0),
        leader=np.where(lost > 0, leader, -1),
        phase=phase,
        lost=lost,
    )


def others_median(values: Matrix, members: Sequence[Integers]) -> Matrix:
    """For each rank (second axis) the lower median of the others in its group."""
    medians = np.full(values.shape, np.nan)
    for group in members:
        middle = (len(group) - 2) // 2
        if middle < 0:
            continue
        held = values[:, group]
        ordered = np.sort(held, axis=1)  # NaN last
        below, above = ordered[:, [middle]], ordered[:, [middle + 1]]
        whole = ~np.isnan(held).any(axis=1, keepdims=True)
        medians[:, group] = np.where(whole, np.where(held > below, below, above), np.nan)
    return medians


def _members(groups: Sequence[str]) -> list[Integers]:
    names = np.array(groups, dtype=str)
    return [np.flatnonzero(names == name) for name in dict.fromkeys(groups)]


def _is_late(times: Matrix, excess: Matrix, members: Sequence[Integers]) -> Flags:
    """Whether a rank's excess made it late: it ended the phase later, or waited less for it.

    The first tells where waits are hidden inside a phase and can't be seen. The second
    tells where the ranks meet within a phase, and so end it together.
    """
    ends = times[:, :, [*_ENDS, _END]]
    ends[:, :, :-1] = ends[:, :, [-1]] - ends[:, :, :-1]
    behind = ends - others_median(ends, members)
    anywhere = np.fmax.reduce(behind, axis=2)  # `other` may be anywhere in the step
    waits = times[:, :, _WAIT]
    awaited = others_median(waits, members) - waits
    lateness = np.full(excess.shape, np.nan)
    for place, phase in enumerate(OWN_PHASES):
        ended = anywhere if place == _OTHER else behind[..., MARKED.index(phase)]
        lateness[..., place] = np.fmax(ended, awaited)
    with np.errstate(invalid="ignore"):
        return np.asarray((excess > 0) & (lateness >= excess / 2))


def _weights(own: Matrix, excess: Matrix) -> Matrix:
    """What is more than the fastest rank's whole work counts as that, so that no single
    step decides for all."""
    fastest = np.maximum(np.fmin.reduce(own, axis=1), 0.0)
    limit = np.where(np.isfinite(fastest), fastest, np.inf)[:, np.newaxis, np.newaxis]
    return np.clip(np.nan_to_num(excess), 0.0, limit)


def _leaders(own_excess: Matrix, excess: Matrix, late: Flags) -> tuple[Integers, Integers, Matrix]:
    """Who has the largest excess of own work, in which phase, and how much if it was late."""
    known = np.nan_to_num(own_excess, nan=-np.inf)
    leader = np.argmax(known, axis=1)
    steps = np.arange(len(leader))
    phases = np.nan_to_num(excess[steps, leader], nan=-np.inf)
    phase = np.argmax(phases, axis=1)
    lost = np.maximum(known[steps, leader], 0.0)
    return leader, phase, np.where(late[steps, leader, phase], lost, 0.0)


def _leading(own_excess: Matrix) -> Matrix:
    return np.asarray(np.fmax.reduce(own_excess, axis=1))

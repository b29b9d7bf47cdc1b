"""Steps that stand out, kept whole: much longer than those before, or held up by one rank."""

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

import numpy as np

from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.contest import OWN_PHASES, Contest
from traceml.sidecar.shapes import Count, Most, RankNumber, Row, Shape, check_attributes
from traceml.snapshot import Outlier, PhaseTime, RankStep
from traceml.wire.columns import DURATIONS, MARKED, PHASES, TIMES, VALUES, Matrix

LONG_RATIO = 1.5  # over the median of the steps before
HELD_RATIO = 0.2  # of the step: what one rank made it longer
COMPARED_STEPS = 100
MIN_STEPS = 20  # before anything can stand out
MAX_PER_MINUTE = 10  # if each is at least this many times as long as usual:
FULL_RATIO = 4
KEPT = 16

_END = VALUES.index("end_ns")  # by the CPU's clock, which the ranks share
_PLACES = {phase: DURATIONS.index(f"{phase}_ns") for phase in PHASES}
_ENDS = {phase: TIMES.index(f"{phase}_end_ns") for phase in MARKED}

# number, step, length, typical length, culprit, phase, lost, ranks, their ends and times
_Row: TypeAlias = tuple[
    Count, Count, float, float, RankNumber | None, str | None, float, tuple[RankNumber, ...],
    Row, Annotated[Matrix, Shape(None, len(TIMES))],
]  # fmt: skip


@saved
class Outliers:
    """Watches completed steps go by, and keeps the last that stood out."""

    _lengths: Annotated[Matrix, Shape(COMPARED_STEPS)]
    _seen: Count
    _found: Count
    _taken_at: Annotated[list[float], Most(1000)]  # in the last minute
    _rows: Annotated[list[_Row], Most(KEPT)]

    def __init__(self) -> None:
        self._lengths = np.full(COMPARED_STEPS, np.nan)
        self._seen = 0
        self._found = 0
        self._taken_at = []
        self._rows = []
        self._shown: tuple[Outlier, ...] = ()

    def add(self, steps: AlignedSteps, times: Matrix, compared: Contest, epoch: float) -> None:
        """Take completed steps; `times` (step x rank x TIMES) and `compared` tell of the same.

        `epoch` is the unix time at which the ranks' clock was 0.
        """
        typical = self._typical()
        ends = epoch + steps.values[:, :, _END] / 1e9
        for place in self._standing_out(typical, compared, float(ends.max())):
            self._found += 1
            leader = int(compared.leader[place])
            self._rows.append((
                self._found, int(steps.step[place]), float(compared.length[place]), typical,
                None if leader < 0 else steps.ranks[leader],
                None if leader < 0 else OWN_PHASES[compared.phase[place]],
                float(compared.lost[place]), steps.ranks, ends[place], times[place],
            ))  # fmt: skip
            self._shown = (*self._shown, _outlier(self._rows[-1]))[-KEPT:]
        del self._rows[:-KEPT]
        self._remember(compared.length)

    def shown(self) -> tuple[Outlier, ...]:
        """The last that stood out."""
        return self._shown

    def save(self) -> dict[str, Any]:
        """All but what is made from the rest."""
        return {name: value for name, value in vars(self).items() if name != "_shown"}

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Outliers":
        """What `save` gave."""
        check_attributes(cls, state)
        outliers = cls()
        vars(outliers).update(state)
        outliers._shown = tuple(_outlier(row) for row in outliers._rows)
        return outliers

    def _typical(self) -> float:
        return float(np.nanmedian(self._lengths)) if self._seen >= MIN_STEPS else float("inf")

    def _standing_out(self, typical: float, compared: Contest, now: float) -> Iterable[int]:
        """The places of those that are to be kept."""
        if typical == float("inf") or not np.isfinite(now):
            return []
        is_long = compared.length >= LONG_RATIO * typical
        is_held = compared.lost >= HELD_RATIO * compared.length
        (found,) = np.nonzero(is_long | is_held)
        if not len(found):
            return []
        self._taken_at = [at for at in self._taken_at if at > now - 60]
        longest_first = found[np.argsort(-compared.length[found], kind="stable")]
        kept = []
        for place in longest_first.tolist():
            if len(self._taken_at) >= _room(float(compared.length[place]) / typical):
                break
            self._taken_at.append(now)
            kept.append(place)
        return sorted(kept)

    def _remember(self, lengths: Matrix) -> None:
        lengths = lengths[-COMPARED_STEPS:]
        self._lengths[(self._seen + np.arange(len(lengths))) % COMPARED_STEPS] = lengths
        self._seen += len(lengths)


def _room(ratio: float) -> float:
    """How many a minute are kept of steps so many times as long as usual.

    Where all steps are held up alike, a few tell it, and room is left for one like no other.
    """
    return MAX_PER_MINUTE * min(ratio / FULL_RATIO, 1.0)


def _outlier(row: _Row) -> Outlier:
    number, step, length, typical, culprit, phase, lost, ranks, ends, times = row
    told = zip(ranks, ends.tolist(), times.tolist(), strict=True)
    return Outlier(
        number, step, length / 1e9, typical / 1e9, culprit, phase, lost / 1e9,
        tuple(RankStep(rank, of[0] / 1e9, ended, tuple(_phases(of))) for rank, ended, of in told),
    )  # fmt: skip


def _phases(times: list[float]) -> Iterable[PhaseTime]:
    """What was measured of a step."""
    for phase, place in _PLACES.items():
        if times[place] > 0:
            ended = _ended(phase, times)
            known = ended / 1e9 if ended >= 0 else None
            yield PhaseTime(phase, times[place] / 1e9, known)


def _ended(phase: str, times: list[float]) -> float:
    """How long before its step a phase ended; NaN if unknown. Waiting follows backward."""
    if phase == "collective_wait":
        return times[_ENDS["backward"]] - times[_PLACES[phase]]
    return times[_ENDS[phase]] if phase in _ENDS else float("nan")

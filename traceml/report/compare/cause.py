"""Why it changed: the phase that moved, the rank that the others wait for, or memory."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from traceml import units
from traceml.report.compare.effects import MEMORY, SLOW_STEPS, STEP, Effect, Effects
from traceml.report.compare.rules import Rules
from traceml.report.compare.side import Side, Worst

_WAIT = "collective_wait"
_ALIKE = (0.5, 1.5)  # of the step's own factor: phases in between moved as it did
_MACHINES = 2.0  # times: a machine, or what else runs on it, hardly makes more of a difference
_SHORTEST = 1e-9  # seconds
_MOST_OF_IT = 0.5
_PEERS_WAIT = "backward"  # where waiting can't be told from it


@dataclass(frozen=True, slots=True)
class Cause:
    """What explains a change of a metric."""

    metric: str
    summary: str  # one sentence with numbers
    phase: str | None = None
    rank: int | None = None
    change: float | None = None  # seconds a step, or bytes
    share: float | None = None  # of the metric's change


def causes(
    found: Effects, bases: Sequence[Side], candidate: Side, rules: Rules
) -> tuple[Cause, ...]:
    """Of everything that counts, the most important first."""
    return tuple(_causes(found, bases, candidate, rules))


def _causes(
    found: Effects, bases: Sequence[Side], candidate: Side, rules: Rules
) -> Iterator[Cause]:
    if found.step is not None and found.step.counts:
        yield from _of_step(found.step, found.phases, bases, candidate, rules)
    if found.slow_steps is not None and found.slow_steps.counts:
        yield _of_slow_steps(found.slow_steps)
    if found.memory is not None and found.memory.counts:
        yield _of_memory(found.memory)


def _of_step(
    step: Effect, phases: Mapping[str, Effect], bases: Sequence[Side], candidate: Side, rules: Rules
) -> Iterator[Cause]:
    if all_alike(step, phases, rules):
        how = "longer" if step.change > 0 else "shorter"
        yield Cause(
            STEP,
            f"All phases take {how} alike, as on a slower or faster machine, or with another batch",
        )
        return
    moved = [each for each in phases.values() if _carries(each, step, rules)]
    moved.sort(key=lambda each: -abs(each.change))
    waits = _WAIT if _WAIT in phases else _PEERS_WAIT
    behind = None
    if not moved or moved[0].metric == waits:
        own = [phase for phase in phases if phase != waits]
        behind = _straggler(moved[0] if moved else step, step, own, bases, candidate)
    if behind is None and not moved:
        yield Cause(STEP, "No single phase accounts for it")
    if behind is not None:
        yield behind
    yield from (_of_phase(effect, step) for effect in moved[behind is not None :])


def _carries(phase: Effect, step: Effect, rules: Rules) -> bool:
    """Whether the phase moved with the step, by a good part of it and by more than noise."""
    share = phase.change / step.change
    return share >= rules.cause_share and abs(phase.change) > phase.equality_noise


def all_alike(step: Effect, phases: Mapping[str, Effect], rules: Rules) -> bool:
    """Whether the step changed as a whole, and not a part of it."""
    heavy = [each for each in phases.values() if each.base >= rules.alike_share * step.base]
    if len(heavy) < 2 or abs(_factor(step)) > math.log(_MACHINES):
        return False
    if any(abs(each.change) <= each.equality_noise for each in heavy):
        return False
    low, high = sorted(bound * _factor(step) for bound in _ALIKE)
    return all(low <= _factor(each) <= high for each in heavy)


def _factor(effect: Effect) -> float:
    """The logarithm of how many times as long it is: halved and doubled are as far from 0."""
    return math.log(max(effect.candidate, _SHORTEST) / max(effect.base, _SHORTEST))


def _of_phase(phase: Effect, step: Effect) -> Cause:
    share = phase.change / step.change
    how = "longer" if phase.change > 0 else "less"
    return Cause(
        STEP,
        f"{phase.metric} takes {units.seconds(abs(phase.change))} a step {how}: "
        f"{units.seconds(phase.base)} -> {units.seconds(phase.candidate)}, "
        f"{units.ratio(share)} of the change",
        phase.metric,
        change=phase.change,
        share=share,
    )


def _straggler(
    leading: Effect, step: Effect, phases: Sequence[str], bases: Sequence[Side], candidate: Side
) -> Cause | None:
    """The rank and phase that the others wait for, if that is what moved.

    Of two ranks the faster one is the median, and of their waits the slower one's: then no
    phase of the median moves, and the step does.
    """
    sides = (*bases, candidate)
    if all(side.skew is None for side in sides) and leading is step:
        return None  # there is nobody to wait
    moved = {
        phase: candidate.worst[phase].value - _mean_worst(bases, phase)
        for phase in phases
        if all(phase in side.worst for side in sides)
    }
    grown = [phase for phase in moved if moved[phase] * leading.change > 0]
    if not grown:
        return None
    phase = max(grown, key=lambda each: abs(moved[each]))
    if abs(moved[phase]) < _MOST_OF_IT * abs(leading.change):
        return None
    blamed = (candidate if step.change > 0 else bases[0]).worst[phase]
    return _of_rank(phase, blamed, moved[phase], step)


def _mean_worst(bases: Sequence[Side], phase: str) -> float:
    return sum(side.worst[phase].value for side in bases) / len(bases)


def _of_rank(phase: str, worst: Worst, change: float, step: Effect) -> Cause:
    who = "a rank" if worst.rank is None else f"rank {worst.rank}"
    how = "longer, and the others wait for it" if change > 0 else "less, and the others wait less"
    return Cause(
        STEP,
        f"{phase} of {who} takes {units.seconds(abs(change))} a step {how}",
        phase,
        worst.rank,
        change,
        change / step.change,
    )


def _of_slow_steps(slow: Effect) -> Cause:
    how = "more or longer" if slow.change > 0 else "fewer or shorter"
    return Cause(
        SLOW_STEPS,
        f"There are {how} slow steps, beside the typical one: spread over all steps they add "
        f"{units.seconds(slow.candidate)}, and added {units.seconds(slow.base)}",
        change=slow.change,
    )


def _of_memory(memory: Effect) -> Cause:
    how = "rises" if memory.change > 0 else "falls"
    return Cause(
        MEMORY,
        f"Peak {memory.kind} memory {how}: {units.bytes_(memory.base)} -> "
        f"{units.bytes_(memory.candidate)}",
        change=memory.change,
    )

"""IMPROVEMENT, REGRESSION, EQUIVALENT, MIXED or INCONCLUSIVE, and how sure that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from traceml import units
from traceml.report.compare.advice import Advice, advice, enough_steps
from traceml.report.compare.cause import all_alike
from traceml.report.compare.effects import BETTER, SAME, STEP, UNCLEAR, WORSE, Effect, Effects
from traceml.report.compare.environment import Changed
from traceml.report.compare.figures import percent, signed_percent
from traceml.report.compare.rules import Rules
from traceml.report.compare.side import Side

IMPROVEMENT, REGRESSION, EQUIVALENT, MIXED, INCONCLUSIVE = STATES = (
    "IMPROVEMENT",
    "REGRESSION",
    "EQUIVALENT",
    "MIXED",
    "INCONCLUSIVE",
)

CONFIDENCES = ("low", "medium", "high")
_BEYOND_DOUBT = 3.0  # times its noise: no assumption about noise would change the verdict


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of the candidate."""

    state: str
    summary: str  # one sentence with numbers
    confidence: str | None = None  # None for INCONCLUSIVE
    doubts: tuple[str, ...] = ()  # what lowers the confidence
    advice: Advice | None = None  # how to know more
    comparable: bool = True  # False: nothing that was measured may be judged


def verdict(
    found: Effects,
    bases: Sequence[Side],
    candidate: Side,
    changed: Sequence[Changed],
    rules: Rules,
    *,
    same_environment: bool,
) -> Verdict:
    """The verdict; environments that differ leave it open if they had to be the same."""
    doubts = tuple(_doubts(found, bases, candidate, rules))
    open_ = _left_open(found, bases, candidate, changed, rules, same_environment)
    if open_ is not None:
        return replace(open_, doubts=doubts, comparable=False)
    state = _state(found)
    if state == INCONCLUSIVE:
        return _inconclusive(found, bases, candidate, rules, doubts)
    return Verdict(state, _summary(found), _confidence(found, changed, doubts), doubts)


def _left_open(
    found: Effects,
    bases: Sequence[Side],
    candidate: Side,
    changed: Sequence[Changed],
    rules: Rules,
    same_environment: bool,
) -> Verdict | None:
    """What keeps from any judgement."""
    if same_environment and changed:
        names = ", ".join(each.what for each in changed)
        return Verdict(INCONCLUSIVE, f"The environments differ, and had to be the same: {names}.")
    fewest = min((*bases, candidate), key=lambda side: side.steps)
    if fewest.steps < rules.least_steps:
        return Verdict(
            INCONCLUSIVE,
            f"{fewest.name} has {fewest.steps} steps to compare, and needs {rules.least_steps}.",
            advice=_more_steps(found.step, fewest.steps, len(bases), rules),
        )
    if found.step is None:
        return Verdict(INCONCLUSIVE, "A summary does not tell how long a step took.")
    return None


def _more_steps(step: Effect | None, steps: int, baselines: int, rules: Rules) -> Advice:
    """How many are needed at the least, or, where steps vary much, to know anything."""
    further = None
    if step is not None and not step.counts and step.says != SAME and steps:
        further = advice(step, steps, baselines, rules).steps
    needed = max(further or 0, rules.least_steps)
    return Advice(enough_steps(needed), steps=needed)


def _state(found: Effects) -> str:
    said = {effect.says for effect in found.costs.values()}
    if {BETTER, WORSE} <= said:
        return MIXED
    if WORSE in said:
        return REGRESSION
    step = found.step.says if found.step is not None else None
    if step == BETTER:
        return IMPROVEMENT
    if step == SAME:  # of the time; the rest may be better still
        return IMPROVEMENT if BETTER in said else EQUIVALENT
    return INCONCLUSIVE


def _inconclusive(
    found: Effects, bases: Sequence[Side], candidate: Side, rules: Rules, doubts: tuple[str, ...]
) -> Verdict:
    step = found.step
    assert step is not None  # _left_open has seen to it
    steps = min(side.steps for side in (*bases, candidate))
    noise = percent(step.relative(step.equality_noise))
    why = (
        f"The step takes {_from_to(step)}, but that may be off by {noise} either way."
        if step.difference.known
        else f"The step takes {_from_to(step)}; how much of it is noise can't be told."
    )
    return Verdict(INCONCLUSIVE, why, doubts=doubts, advice=advice(step, steps, len(bases), rules))


def _summary(found: Effects) -> str:
    step = found.step
    assert step is not None
    if step.counts:
        how = "longer" if step.change > 0 else "less"
        size = units.seconds(abs(step.change))
        noise = f"noise is up to {percent(step.relative(step.noise))}"
        told = f", but {step.told_by} alone tells" if step.told_by else ""
        return f"The step takes {size} {how}: {_from_to(step)}, where {noise}{told}."
    low, high = (
        signed_percent(step.relative(step.change + sign * step.equality_noise))
        for sign in (-1.0, 1.0)
    )
    if step.says == SAME:
        return (
            f"The step takes {_from_to(step)}: between {low} and {high}, so within the threshold."
        )
    return f"The step takes {_from_to(step)}, which may be noise; this is not:"


def _from_to(effect: Effect) -> str:
    ratio = "" if effect.ratio is None else f" ({signed_percent(effect.ratio)})"
    return f"{units.seconds(effect.base)} -> {units.seconds(effect.candidate)}{ratio}"


def _doubts(found: Effects, bases: Sequence[Side], candidate: Side, rules: Rules) -> Iterator[str]:
    step, slow = found.step, found.slow_steps
    if step is not None and not step.difference.known:
        silent = [each for each in (*bases, candidate) if each.step and not each.step.series]
        names = ", ".join(dict.fromkeys(each.name for each in silent)) or "a run"
        yield f"How steps vary is not in the summary of {names}: a large noise is assumed"
    if len(bases) == 1 and not _is_beyond_doubt(step):
        yield "One baseline does not tell how much equal runs differ: a usual amount is assumed"
    if step is not None and step.counts and all_alike(step, found.phases, rules):
        yield "All phases changed alike, as they would if the machine had more or less else to do"
    for side in (*bases, candidate):
        yield from (f"Of {side.name}: {doubt}" for doubt in side.doubts)
    if slow is not None and slow.says == UNCLEAR and step is not None and step.says == SAME:
        went = signed_percent(step.relative(slow.change))
        yield f"Slow steps may have changed the mean over all steps by {went}"


def _is_beyond_doubt(step: Effect | None) -> bool:
    return step is not None and step.counts and abs(step.change) > _BEYOND_DOUBT * step.noise


def _confidence(found: Effects, changed: Sequence[Changed], doubts: Sequence[str]) -> str:
    """One level down for what makes runs different, one for what makes figures unsure."""
    level = len(CONFIDENCES) - 1 - bool(changed) - bool(doubts)
    step = found.costs[STEP]
    if not step.difference.known and not _is_beyond_doubt(step):
        level = 0
    return CONFIDENCES[max(level, 0)]

"""What would settle a comparison that noise leaves open."""

import math
from dataclasses import dataclass

from traceml.report.compare.effects import Effect
from traceml.report.compare.figures import percent
from traceml.report.compare.noise import Difference
from traceml.report.compare.rules import Rules

_MOST_STEPS = 1_000_000
_MOST_BASELINES = 10
_ROUND_TO = 2  # significant digits


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, and the numbers in it."""

    summary: str
    steps: int | None = None  # in each run
    baselines: int | None = None


def enough_steps(steps: int) -> str:
    """A sentence that asks for so many."""
    return f"About {steps} steps in each run would do, those left out (warm-up ...) not counted."


def advice(step: Effect, steps: int, baselines: int, rules: Rules) -> Advice:
    """How to know more of a step time that is unclear."""
    found = step.difference
    if not found.known:
        return Advice("Compare summaries that tell how their steps vary (`distribution`).")
    level, margin = _aim(step, rules)
    if found.noise(level) <= margin:
        return Advice(
            f"The change is too near the threshold of {percent(rules.threshold)} to say which; "
            "more steps and baselines narrow it down, another --threshold decides it."
        )
    return _more_of(found, steps, baselines, rules, level, margin)


def _aim(step: Effect, rules: Rules) -> tuple[float, float]:
    """Which interval has to become how narrow: for a change to count, or to be ruled out."""
    least = max(rules.threshold * step.base, rules.floor_seconds)
    size = abs(step.change)
    if size >= least:
        return rules.level_of_change, size
    return rules.level_of_equality, max(least - size, least / 2)


def _more_of(
    found: Difference, steps: int, baselines: int, rules: Rules, level: float, margin: float
) -> Advice:
    quantile = found.noise(level) / math.sqrt(found.within + found.between)
    allowed = (margin / quantile) ** 2
    between = _left_by_more_steps(found, baselines, rules)
    if between < allowed:
        needed = _rounded_up(steps * found.within / (allowed - between))
        if needed <= _MOST_STEPS:
            return Advice(enough_steps(needed), steps=needed)
    of_one_run = found.between / (1 + 1 / baselines)
    if baselines == 1:  # several would replace what is assumed
        of_one_run *= (rules.expected_run_noise / rules.assumed_run_noise) ** 2
    for more in range(baselines + 1, _MOST_BASELINES + 1):
        if of_one_run * (1 + 1 / more) + found.within / 2 < allowed:
            return Advice(
                f"More steps would not do, runs differ too much: {more} baselines would "
                "(--base, repeated).",
                baselines=more,
            )
    return Advice(
        "Neither more steps nor more baselines would do, equal runs differ too much here: "
        "use a quieter machine or a larger --threshold."
    )


def _left_by_more_steps(found: Difference, baselines: int, rules: Rules) -> float:
    """The run noise to reckon with; where steps vary much, runs may seem to differ by that."""
    if found.within <= found.between / 2:
        return found.between
    expected = (rules.expected_run_noise * found.base) ** 2
    return min(found.between, expected * (1 + 1 / baselines))


def _rounded_up(steps: float) -> int:
    digits = max(len(str(math.ceil(steps))) - _ROUND_TO, 0)
    unit = int(10**digits)
    return math.ceil(steps / unit) * unit

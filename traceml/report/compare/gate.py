"""Whether a comparison may pass: exit codes for CI."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from traceml.report.compare.effects import MEMORY, STEP, Effects
from traceml.report.compare.figures import percent, signed_percent
from traceml.report.compare.verdict import INCONCLUSIVE, MIXED, REGRESSION, Verdict

PASSED, FAILED, UNDECIDED = 0, 1, 3  # 2 is wrong usage or unreadable input

ON_REGRESSION, ON_INCONCLUSIVE = FAIL_ON = ("regression", "inconclusive")
LIMITED = (STEP, MEMORY)


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not be."""

    fail_on: Sequence[str] = ()
    limits: Mapping[str, float] = field(default_factory=dict)  # ratios, by metric


@dataclass(frozen=True, slots=True)
class Check:
    """One condition, and what came of it."""

    what: str
    outcome: int  # as an exit code
    why: str


def checks(gate: Gate, verdict: Verdict, found: Effects) -> list[Check]:
    """Every condition of the gate."""
    results = [_limit(metric, limit, verdict, found) for metric, limit in gate.limits.items()]
    if ON_REGRESSION in gate.fail_on:
        failed = verdict.state in (REGRESSION, MIXED)
        results.append(Check("no regression", FAILED if failed else PASSED, verdict.state))
    if ON_INCONCLUSIVE in gate.fail_on:
        is_open = verdict.state == INCONCLUSIVE
        results.append(Check("not inconclusive", UNDECIDED if is_open else PASSED, verdict.state))
    return results


def exit_code(gate: Gate, results: Sequence[Check]) -> int:
    """What the command ends with; a limit that can't be judged counts as inconclusive."""
    outcomes = {result.outcome for result in results}
    if FAILED in outcomes:
        return FAILED
    return UNDECIDED if UNDECIDED in outcomes and ON_INCONCLUSIVE in gate.fail_on else PASSED


def _limit(metric: str, limit: float, verdict: Verdict, found: Effects) -> Check:
    what = f"{metric} at most {signed_percent(limit)}"
    effect = found.costs.get(metric)
    if not verdict.comparable:
        return Check(what, UNDECIDED, verdict.summary)
    if effect is None:
        return Check(what, UNDECIDED, "not measured in every run")
    change = signed_percent(effect.relative(effect.change))
    if not effect.is_above(limit):
        return Check(what, PASSED, change)
    if effect.exceeds(limit):
        return Check(what, FAILED, change)
    noise = percent(effect.relative(effect.noise))
    return Check(what, UNDECIDED, f"{change}, where noise is up to {noise}")

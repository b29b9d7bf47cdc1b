"""A comparison as a whole: what every output of it reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceml.report.compare.cause import Cause, causes
from traceml.report.compare.context import Fact, Shift, facts, shift
from traceml.report.compare.effects import Effects, effects
from traceml.report.compare.environment import Changed, changes
from traceml.report.compare.gate import Check, Gate, checks, exit_code
from traceml.report.compare.noise import run_noise, typical
from traceml.report.compare.rules import DEFAULT, Rules
from traceml.report.compare.side import Side
from traceml.report.compare.verdict import Verdict, verdict


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against its baselines."""

    bases: tuple[Side, ...]
    candidate: Side
    rules: Rules
    verdict: Verdict
    effects: Effects
    causes: tuple[Cause, ...]
    shift: Shift
    facts: tuple[Fact, ...]
    changed: tuple[Changed, ...]
    run_noise: float | None  # standard deviation from run to run, as a ratio
    checks: tuple[Check, ...]
    exit_code: int

    @property
    def names(self) -> tuple[str, str]:
        """The baselines in short, and the candidate; not the same even if their names are."""
        base, new = self.bases[0].name, self.candidate.name
        if base == new:
            base, new = f"{base}, before", f"{new}, after"
        more = len(self.bases) - 1
        return (f"{base} (+{more})" if more else base), new


def compare(
    bases: Sequence[Side],
    candidate: Side,
    rules: Rules = DEFAULT,
    gate: Gate | None = None,
    *,
    same_environment: bool = False,
) -> Comparison:
    """Judge a candidate by one baseline or several."""
    gate = gate or Gate()
    found, changed = effects(bases, candidate, rules), changes(bases, candidate)
    judged = verdict(found, bases, candidate, changed, rules, same_environment=same_environment)
    results = checks(gate, judged, found)
    steps = [typical(side.step, rules) for side in bases if side.step is not None]
    return Comparison(
        bases=tuple(bases),
        candidate=candidate,
        rules=rules,
        verdict=judged,
        effects=found,
        causes=causes(found, bases, candidate, rules) if judged.comparable else (),
        shift=shift(bases, candidate),
        facts=facts(bases, candidate),
        changed=changed,
        run_noise=run_noise(steps, rules) if steps else None,
        checks=tuple(results),
        exit_code=exit_code(gate, results),
    )

"""One measured value against one threshold: the form of every rule on machines and processes."""

from collections.abc import Iterable
from dataclasses import dataclass

from traceml.diagnosis.finding import Finding
from traceml.diagnosis.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Measured:
    """A value, and whose it is."""

    value: float
    who: str
    rank: int | None = None


def above(
    domain: str,
    state: str,
    severity: str,
    measured: Iterable[Measured],
    limit: float,
    sentence: str,
    action: str,
) -> Verdict:
    """Holds if the highest value reaches the limit; abstains if there is none."""
    worst = max(measured, key=lambda each: each.value, default=None)
    if worst is None:
        return Verdict(state)
    return _verdict(domain, state, severity, worst, worst.value / limit, sentence, action)


def below(
    domain: str,
    state: str,
    severity: str,
    measured: Iterable[Measured],
    limit: float,
    sentence: str,
    action: str,
) -> Verdict:
    """Holds if the lowest value is under the limit; abstains if there is none."""
    worst = min(measured, key=lambda each: each.value, default=None)
    if worst is None:
        return Verdict(state)
    score = limit / worst.value if worst.value > 0 else 2.0
    # At the limit itself it does not hold.
    score = min(score, 0.999) if worst.value >= limit else score
    return _verdict(domain, state, severity, worst, score, sentence, action)


def _verdict(
    domain: str,
    state: str,
    severity: str,
    worst: Measured,
    score: float,
    sentence: str,
    action: str,
) -> Verdict:
    if score < 1:
        return Verdict(state, score)
    summary = sentence.format(who=worst.who, value=worst.value)
    finding = Finding(
        domain, state, severity, summary, action, rank=worst.rank, evidence={"value": worst.value}
    )
    return Verdict(state, score, finding)

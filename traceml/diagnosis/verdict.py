"""What one rule says, and how all of a domain's become its diagnosis."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from traceml.diagnosis.finding import (
    CRITICAL,
    INFO,
    SEVERITIES,
    STATES,
    WARNING,
    Diagnosis,
    Finding,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule's judgement: it holds (finding), it does not, or it abstains (no score)."""

    state: str
    score: float | None = None  # measured over the warning threshold
    finding: Finding | None = None
    share: float = 0.0  # of the step that is lost by it


def severity(value: float, warning: float, critical: float) -> str:
    """How bad a value is that may be above these thresholds."""
    return CRITICAL if value >= critical else WARNING if value >= warning else INFO


def at_most(finding: Finding, limit: str) -> Finding:
    """The finding, but not worse than this."""
    if SEVERITIES.index(finding.severity) <= SEVERITIES.index(limit):
        return finding
    return replace(finding, severity=limit)


def at_most_medium(confidence: str) -> str:
    """The confidence, but no more than that."""
    return "medium" if confidence == "high" else confidence


def conclude(domain: str, verdicts: Iterable[Verdict], otherwise: Finding) -> Diagnosis:
    """The diagnosis: what holds, the worst first; `otherwise` if nothing does."""
    given = tuple(verdicts)
    held = sorted((v for v in given if v.finding is not None), key=lambda v: _order(domain, v))
    findings = tuple(verdict.finding for verdict in held if verdict.finding is not None)
    scores = {verdict.state: verdict.score for verdict in given if verdict.score is not None}
    return Diagnosis(findings or (otherwise,), scores)


def _order(domain: str, verdict: Verdict) -> tuple[int, float, int]:
    assert verdict.finding is not None
    return (
        -SEVERITIES.index(verdict.finding.severity),
        -verdict.share,
        STATES[domain].index(verdict.state),
    )

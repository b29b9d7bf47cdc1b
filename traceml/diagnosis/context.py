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


@dataclass(frozen=True, slots=True)
class Rule:
    """What is said of the worst value if it passes the limit; abstains where there is none."""

    domain: str
    state: str
    severity: str
    limit: float
    sentence: str
    action: str

    def above(self, measured: Iterable[Measured]) -> Verdict:
        """Holds if the highest value reaches the limit."""
        worst = max(measured, key=lambda each: each.value, default=None)
        if worst is None:
            return Verdict(self.state)
        return self._verdict(worst, worst.value / self.limit)

    def below(self, measured: Iterable[Measured]) -> Verdict:
        """Holds if the lowest value is under the limit."""
        worst = min(measured, key=lambda each: each.value, default=None)
        if worst is None:
            return Verdict(self.state)
        score = self.limit / worst.value if worst.value > 0 else 2.0
        # At the limit itself it does not hold.
        return self._verdict(worst, min(score, 0.999) if worst.value >= self.limit else score)

    def _verdict(self, worst: Measured, score: float) -> Verdict:
        if score < 1:
            return Verdict(self.state, score)
        finding = Finding(
            self.domain,
            self.state,
            self.severity,
            self.sentence.format(who=worst.who, value=worst.value),
            self.action,
            rank=worst.rank,
            evidence={"value": worst.value},
        )
        return Verdict(self.state, score, finding)

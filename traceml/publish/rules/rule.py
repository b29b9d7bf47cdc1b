"""What a rule is: declared once, as a template that `Options` fills."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from traceml.publish.rules.options import Options

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A value that Prometheus computes at each evaluation and keeps under a name of its own."""

    name: str
    help: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """What somebody should know of. Several of one name differ in severity and threshold."""

    name: str
    severity: Severity
    when: str  # for a table
    expr: str
    hold: str  # how long it must be so before it fires
    summary: str  # names run, rank and phase
    description: str  # numbers, and the next thing to do
    keep: str = ""  # how long it fires on after it was last so

    def labels(self, options: Options) -> dict[str, str]:
        """What is on every alert of this rule."""
        return {"severity": self.severity, **dict(options.labels)}

    def annotations(self, options: Options) -> dict[str, str]:
        """What is told with it."""
        return {
            "summary": options.text(self.summary),
            "description": options.text(self.description),
            "runbook_url": options.runbook(self.name),
        }


Rule = RecordingRule | Alert
Groups = Mapping[str, tuple[Rule, ...]]  # by name; Prometheus evaluates each in this order

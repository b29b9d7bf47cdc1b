"""What can be chosen in the rules, and how it gets into them."""

import re
from dataclasses import dataclass, field
from string import Template

from traceml.publish.rules.duration import Duration
from traceml.publish.rules.selector import Selector

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN = ("alertname", "severity", "run", "rank", "phase", "node", "job", "instance")


def _minutes(count: int) -> Duration:
    return Duration(count * 60_000)


_SOON = _minutes(1)


@dataclass(frozen=True, slots=True)
class Options:
    """The choices, each with its default."""

    selector: Selector = field(default_factory=Selector)
    lost_share: float = 0.1  # of wall time; critical from twice that
    rate_window: Duration = field(default=_minutes(5))
    hold: Duration = field(default=_minutes(10))  # longer than the window: one jump is no trend
    stalled_after: Duration = field(default=_minutes(5))
    never_started_after: Duration = field(default=_minutes(15))
    missing_after: Duration = field(default=_minutes(2))
    memory_window: Duration = field(default=_minutes(30))
    memory_horizon: Duration = field(default=_minutes(60))
    runbook_base: str = "docs/runbooks/"
    labels: tuple[tuple[str, str], ...] = ()
    keeps_firing: bool = True  # Prometheus 2.42 and later know of it

    def expression(self, text: str) -> str:
        """An expression with what was chosen."""
        return self.selector.into(Template(text).substitute(self._values()))

    def text(self, text: str) -> str:
        """An annotation with what was chosen; Prometheus's own `$labels` and `$value` stay."""
        return self.selector.into(Template(text).safe_substitute(self._values()))

    def runbook(self, alert: str) -> str:
        """Where the page of an alert is."""
        return f"{self.runbook_base.rstrip('/')}/{alert}.md"

    def _values(self) -> dict[str, str]:
        kept = self.selector.labels
        of_run = ("run", *kept)
        return {
            "run": _names(*of_run),
            "sidecar": _names(*of_run, "instance"),
            "target": _names("job", "instance", *kept),
            "run_and_target": _names(*of_run, "job", "instance"),
            "matching": ",".join(f"{label}=%q" for label in of_run),
            "arguments": " ".join(f"$labels.{label}" for label in of_run),
            "lost_share": f"{self.lost_share:g}",
            "lost_share_critical": f"{2 * self.lost_share:g}",
            "lost_percent": f"{100 * self.lost_share:g}%",
            "lost_percent_critical": f"{200 * self.lost_share:g}%",
            "rate_window": str(self.rate_window),
            "grace": str(self.rate_window.times(0.4)),
            "hold": str(self.hold),
            "longer": str(self.hold.times(1.5)),
            "after": str(self.hold.times(0.5)),
            # It speaks for its own warning, and a share falls from twice to once within that.
            "after_critical": str(self.hold.times(0.5).plus(self.rate_window.times(0.5))),
            "soon": str(min(_SOON, self.hold)),
            "stalled_after": str(self.stalled_after),
            "stalled_seconds": f"{self.stalled_after.seconds:g}",
            "never_started_after": str(self.never_started_after),
            "never_started_seconds": f"{self.never_started_after.seconds:g}",
            "missing_after": str(self.missing_after),
            "memory_window": str(self.memory_window),
            "memory_horizon": str(self.memory_horizon),
            "horizon_seconds": f"{self.memory_horizon.seconds:.15g}",
        }


def parse_label(text: str) -> tuple[str, str]:
    """A label for every alert, of `team=ml`; ValueError for what can't be one."""
    name, equals, value = text.partition("=")
    if not equals or not value or _LABEL.fullmatch(name) is None or name.startswith("__"):
        raise ValueError(f"{text!r} is no label, such as team=ml")
    if name in _TAKEN:
        raise ValueError(f"{name} says something of the alert already")
    if "{{" in value:
        raise ValueError(f"{value!r}: a label's value is taken as it is, without templates")
    return name, value


def parse_share(text: str) -> float:
    """A share of wall time; ValueError for what can't be one."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 0.5:  # what is critical is twice as much
        raise ValueError(f"{text!r} is no share of wall time above 0 and up to 0.5")
    return share


def parse_base(text: str) -> str:
    """Where runbooks are, a URL or a path; ValueError for what can't be one."""
    if not text or re.search(r"[\s`{}\"]", text):
        raise ValueError(f"{text!r} is no URL or path")
    return text


def _names(*labels: str) -> str:
    return ", ".join(dict.fromkeys(labels))

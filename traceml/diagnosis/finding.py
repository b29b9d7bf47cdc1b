"""A finding: what is wrong, in which domain."""

from dataclasses import dataclass

DOMAINS = ("step_time", "step_memory", "system", "process")


@dataclass(frozen=True, slots=True)
class Finding:
    """The primary finding of a domain."""

    domain: str
    state: str
    severity: str
    summary: str


def no_data(domain: str) -> Finding:
    """What is said of a domain that no rule has judged."""
    return Finding(domain, "NO_DATA", "info", "No rule has judged this run.")

"""Lengths of time as Prometheus writes them: 90s, 5m, 1h30m."""

import re
from dataclasses import dataclass

_UNITS_MS = {
    "y": 365 * 86_400_000,
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_WRITTEN = ("d", "h", "m", "s", "ms")
_PATTERN = re.compile("".join(rf"(?:([0-9]{{1,9}}){unit})?" for unit in _UNITS_MS))


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time."""

    ms: int

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """What Prometheus would read; ValueError for anything else, and for nothing at all."""
        found = _PATTERN.fullmatch(text)
        ms = 0 if found is None else sum(
            int(count or 0) * unit
            for count, unit in zip(found.groups(), _UNITS_MS.values(), strict=True)
        )  # fmt: skip
        if not ms:
            raise ValueError(f"{text!r} is no duration above 0, such as 30s, 5m or 1h30m")
        return cls(ms)

    def __str__(self) -> str:
        left, written = self.ms, ""
        for unit in _WRITTEN:
            count, left = divmod(left, _UNITS_MS[unit])
            written += f"{count}{unit}" if count else ""
        return written

    @property
    def seconds(self) -> float:
        """The same as a number."""
        return self.ms / 1000

    def plus(self, other: "Duration") -> "Duration":
        """One after the other."""
        return Duration(self.ms + other.ms)

    def times(self, factor: float) -> "Duration":
        """So many times as long."""
        return Duration(max(round(self.ms * factor), 1))

"""What steps truly were, by the device's own log: nothing here knows of TraceML.

Of the compute stream, each moment belongs to a phase (between two marks), and is work, a
copy, waiting for other ranks, or idle. Times are milliseconds.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.accelerator.entry import Entry

COMPUTE_STREAM = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step: by phase, what the compute stream did. Its copies count wherever they are."""

    own: dict[str, float]
    wait: dict[str, float]
    idle: dict[str, float]
    h2d: float

    @property
    def collective_wait(self) -> float:
        return sum(self.wait.values())

    @property
    def length(self) -> float:
        parts = (self.own, self.wait, self.idle)
        return self.h2d + sum(sum(part.values()) for part in parts)

    def device(self, phase: str) -> float:
        """What its clock shows of a phase, without waiting: work, and idling between it."""
        return self.own.get(phase, 0.0) + self.idle.get(phase, 0.0)


def steps_of(log: Sequence[Entry]) -> list[Step]:
    """The steps in a log, from mark to mark; what precedes the first is none."""
    computed = [entry for entry in log if entry.stream == COMPUTE_STREAM]
    copies = _copies_of(log)
    ends = [i for i, entry in enumerate(computed) if (entry.kind, entry.label) == ("mark", "step")]
    return [_step(computed[begin : end + 1], copies) for begin, end in pairwise(ends)]


def _copies_of(log: Iterable[Entry]) -> dict[int, list[Entry]]:
    """Copies by stream, in their order."""
    copies: dict[int, list[Entry]] = {}
    for entry in log:
        if entry.kind == "copy":
            copies.setdefault(entry.stream, []).append(entry)
    return copies


def _step(entries: Sequence[Entry], copies: dict[int, list[Entry]]) -> Step:
    own: Counter[str] = Counter()
    wait: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    h2d, phase, now = 0, "input", entries[0].end_ns
    for entry in entries[1:]:
        length = entry.end_ns - entry.begin_ns
        idle[phase] += entry.begin_ns - now
        now = entry.end_ns
        if entry.kind == "mark":
            phase = entry.label
        elif entry.kind == "kernel":
            own[entry.label] += length
        elif entry.kind == "copy" or _is_for_copy(entry, copies.get(entry.awaited, [])):
            h2d += length
        else:
            wait[phase] += length
    return Step(_ms(own), _ms(wait), _ms(idle), h2d / 1e6)


def _is_for_copy(entry: Entry, copies: list[Entry]) -> bool:
    """Whether what is waited for was a copy: one that ended with the waiting."""
    at = bisect_left(copies, entry.end_ns, key=lambda copy: copy.end_ns)
    return at < len(copies) and copies[at].end_ns == entry.end_ns and entry.kind == "wait"


def _ms(times: Counter[str]) -> dict[str, float]:
    return {name: ns / 1e6 for name, ns in times.items()}

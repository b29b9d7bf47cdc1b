"""Entries written by hand, at times chosen by hand, and the steps that come of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from traceml.rank import events
from traceml.rank.events import Entry, Recorder
from traceml.rank.replay import Replay
from traceml.rank.slots import Row, to_records
from traceml.wire.columns import PHASES, VALUES

_ENDS = {
    events.FETCH: events.FETCH_END,
    events.FETCH_EVAL: events.FETCH_END,
    events.COPY: events.COPY_END,
    events.FORWARD_EVAL: events.FORWARD_END,
    events.FORWARD_UNSURE: events.FORWARD_END,
    events.FORWARD_QUIET: events.FORWARD_END,
    events.FORWARD_TRAIN: events.FORWARD_END,
    events.FORWARD_FROZEN: events.FORWARD_END,
    events.BACKWARD: events.BACKWARD_END,
    events.GRADIENT: events.GRADIENT_END,
    events.OPTIMIZER: events.OPTIMIZER_END,
    events.WAIT: events.WAIT_END,
}

_NAMES = {
    code: name
    for name, code in vars(events).items()
    if isinstance(code, int) and name not in ("CAPACITY", "NUMBERED_EVERY", "NOBODY")
}


THREAD = get_ident()


class Tape:
    """What a training thread would have written; each method returns the tape itself."""

    def __init__(self, start: int = 1_000) -> None:
        self.now = start
        self.entries: list[Entry] = []

    def __repr__(self) -> str:
        return " ".join(f"{_NAMES[code]}:{value}" for code, value, _ in self.entries)

    def at(self, code: int) -> "Tape":
        """Something happens now."""
        self.entries.append((code, self.now, THREAD))
        return self

    def note(self, code: int, value: Any = 1) -> "Tape":
        """An entry that has no time."""
        self.entries.append((code, value, THREAD))
        return self

    def pause(self, ns: int) -> "Tape":
        """Time goes by."""
        self.now += ns
        return self

    def during(self, code: int, ns: int) -> "Tape":
        """Something begins now and takes so long."""
        return self.at(code).pause(ns).at(_ENDS[code])

    def fetch(self, ns: int = 1) -> "Tape":
        return self.during(events.FETCH, ns)

    def forward(self, ns: int = 1, kind: int = events.FORWARD_TRAIN) -> "Tape":
        return self.during(kind, ns)

    def backward(self, ns: int = 1) -> "Tape":
        return self.during(events.BACKWARD, ns)

    def optimizer(self, ns: int = 1, which: int = 0) -> "Tape":
        return self.note(events.WHICH, which).during(events.OPTIMIZER, ns)

    def step(self, which: int = 0) -> "Tape":
        """Of a loop without a loader: 10 forward, 20 backward, 5 optimizer."""
        return self.forward(10).backward(20).optimizer(5, which)

    def scope_end(self) -> "Tape":
        return self.at(events.SCOPE_END)


@dataclass(frozen=True)
class Step:
    """One step as it is reported, times in ns."""

    number: int
    tags: int
    values: dict[str, float]

    @property
    def end(self) -> float:
        return self.values["end_ns"]

    def __getitem__(self, phase: str) -> float:
        return self.values[f"{phase}_ns"]

    @property
    def phases(self) -> dict[str, float]:
        """Those that were measured and took time."""
        return {phase: self[phase] for phase in PHASES if self[phase] > 0}

    @property
    def device_ms(self) -> dict[str, float]:
        """The phases that took time on the device; empty if nobody knows."""
        columns = {phase: self[f"device_{phase}"] / 1e6 for phase in PHASES}
        return {phase: ms for phase, ms in columns.items() if ms > 0}

    @property
    def absent(self) -> set[str]:
        """Phases that could not be measured."""
        return {phase for phase in PHASES if math.isnan(self[phase])}


def steps_of(rows: Sequence[Row], timed: Sequence[Row | None] = ()) -> list[Step]:
    """Steps by the CPU's clock and, in `timed`, by the device's."""
    records = to_records(rows, 1, None, timed)
    columns = records.step, records.tags, records.values
    return [
        Step(number, tags, dict(zip(VALUES, values, strict=True)))
        for number, tags, values in zip(*(c.tolist() for c in columns), strict=True)
    ]


def replayed(tape: Tape, recorder: Recorder | None = None) -> list[Step]:
    """All steps on a tape, up to its end; an optimizer was made before, if nothing else is said."""
    if recorder is None:
        recorder = Recorder()
        recorder.optimizers_made = 1
    replay = Replay(recorder)
    return steps_of(replay.feed(tape.entries) + replay.finish())

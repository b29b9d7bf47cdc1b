"""Alignment: a step is completed once every rank of this node has reported it."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.contest import Flags
from traceml.sidecar.shapes import (
    ByRank,
    Count,
    CountRow,
    Cube,
    Expected,
    Shape,
    ShapeError,
    Within,
    check,
    check_attributes,
    is_numbered,
)
from traceml.wire.columns import VALUES, Integers, Matrix, Records

BUFFER_BYTES = 16 * 2**20
MAX_PENDING_STEPS = 16_384
MIN_PENDING_STEPS = 88

_BUFFERS = ("_values", "_tags", "_present", "_done")


@dataclass(frozen=True, slots=True)
class AlignedSteps:
    """Completed steps in order: `values` is step x rank x VALUES, ranks as in `ranks`."""

    ranks: tuple[int, ...]
    step: Integers
    tags: Integers  # of all ranks together
    values: Matrix

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, rows: Any) -> "AlignedSteps":
        return AlignedSteps(self.ranks, self.step[rows], self.tags[rows], self.values[rows])


@saved
class Aligner:
    """Holds the steps of one attempt until they are complete, in bounded memory.

    Each rank reports in order, so a step that every rank has passed without it
    being complete never will be: its record was lost, and it is given up. A rank
    that is excused is not waited for, until it speaks again.
    """

    _capacity: Annotated[int, Within(1, MAX_PENDING_STEPS)]
    _expected: Expected
    _columns: ByRank
    _reached: CountRow
    _excused: Annotated[Flags, Shape(None)]
    _floor: Annotated[int, Within(-1, 2**33)]  # the first step that is waited for, if any is known
    _settled_to: Annotated[int, Within(0, 2**33)]  # below it all is over
    incomplete: Counter[str]
    late: Count
    duplicates: Count

    def __init__(self, expected: int) -> None:
        fit = BUFFER_BYTES // (expected * len(VALUES) * 8)
        self._capacity = int(np.clip(fit, MIN_PENDING_STEPS, MAX_PENDING_STEPS))
        self._expected = expected
        self._columns = {}
        self._reached = np.full(expected, -1, dtype=np.int64)
        self._excused = np.zeros(expected, dtype=bool)
        self._floor = -1
        self._settled_to = 0
        # Read only where `_present` says so; memory that nobody has written costs nothing.
        self._values = np.empty((self._capacity, expected, len(VALUES)))
        self._tags = np.zeros(self._capacity, dtype=np.int64)
        self._present = np.zeros((self._capacity, expected), dtype=bool)
        self._done = np.zeros(self._capacity, dtype=bool)
        self.incomplete = Counter()
        self.late = 0
        self.duplicates = 0

    def add(self, rank: int, records: Records) -> list[AlignedSteps]:
        """Take records of one rank; returns what they completed, in order."""
        half = self._capacity // 2
        parts = (records[first : first + half] for first in range(0, len(records), half))
        return [done for part in parts for done in self._add(rank, part)]

    def excuse(self, rank: int) -> list[AlignedSteps]:
        """Wait for this rank no longer; returns what is complete without it, in order."""
        column = self._column_of(rank)
        if column is None:
            return []
        self._excused[column] = True
        if self._floor < 0:
            return []
        completed = self._completed(np.arange(self._floor, int(self._reached.max()) + 1))
        self._settle()
        return completed

    def is_excused(self, rank: int) -> bool:
        """Whether this rank is no longer waited for."""
        column = self._columns.get(rank)
        return column is not None and bool(self._excused[column])

    @property
    def waiting(self) -> int:
        """How many steps some rank has told and another has not."""
        return int((self._present.any(axis=1) & ~self._done).sum())

    def give_up(self, reason: str) -> None:
        """Count every step that is still waiting as incomplete."""
        self.incomplete[reason] += self.waiting
        self._present[:] = False

    def save(self) -> dict[str, Any]:
        """The steps that wait, not the empty places beside them."""
        steps = np.arange(self._floor, max(int(self._reached.max()) + 1, self._floor))
        steps = steps[self._present[steps % self._capacity].any(axis=1)]
        slots = steps % self._capacity
        waiting = {name: getattr(self, name)[slots] for name in _BUFFERS}
        rest = {name: value for name, value in vars(self).items() if name not in _BUFFERS}
        return {"rest": rest, "slots": slots, "waiting": waiting}

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Aligner":
        """What `save` gave."""
        check_attributes(cls, state["rest"])
        aligner = cls(state["rest"]["_expected"])
        capacity = aligner._capacity
        vars(aligner).update(state["rest"])
        check(CountRow, state["slots"], "the slots of Aligner")
        check(Cube, state["waiting"]["_values"], "the steps of Aligner")
        if capacity != aligner._capacity or not aligner._is_sound(state["slots"]):
            raise ShapeError("the steps of Aligner do not belong together")
        for name in _BUFFERS:
            getattr(aligner, name)[state["slots"]] = state["waiting"][name]
        return aligner

    def _is_sound(self, slots: Integers) -> bool:
        """Whether every rank has its column, and every step that waits its slot."""
        are_columns = is_numbered(self._columns) and len(self._columns) <= self._expected
        lengths = {self._expected, len(self._reached), len(self._excused)}
        highest = self._floor + self._capacity if self._floor >= 0 else 0
        have_slots = (self._reached < highest).all() and (
            (slots >= 0) & (slots < self._capacity)
        ).all()
        return are_columns and len(lengths) == 1 and bool(have_slots)

    def _column_of(self, rank: int) -> int | None:
        """The rank's place; None for one rank more than there should be."""
        column = self._columns.get(rank, len(self._columns))
        if column >= self._expected:
            return None
        self._columns[rank] = column
        return column

    def _add(self, rank: int, records: Records) -> list[AlignedSteps]:
        column = self._column_of(rank)
        if column is None:
            self.late += len(records)
            return []
        self._excused[column] = False
        if self._floor < 0:
            self._floor = int(records.step[0])
        # Another rank may have begun earlier than the one that reported first.
        first = int(records.step[0])
        if self._settled_to <= first < self._floor and self._can_lower_to(first):
            self._floor = first
        self._make_room(int(records.step[-1]))
        records = self._only_new(column, records)
        if not len(records):
            return []
        slots = records.step % self._capacity
        self._values[slots, column] = records.values
        self._tags[slots] |= records.tags
        self._present[slots, column] = True
        self._reached[column] = max(self._reached[column], records.step[-1])
        completed = self._completed(records.step)
        self._settle()
        return completed

    def _can_lower_to(self, step: int) -> bool:
        return int(self._reached.max()) - step < self._capacity

    def _only_new(self, column: int, records: Records) -> Records:
        late = int(np.searchsorted(records.step, self._floor))
        if late:
            self.late += late
            records = records[late:]
        again = self._present[records.step % self._capacity, column]
        if again.any():
            self.duplicates += int(again.sum())
            records = records[~again]
        return records

    def _make_room(self, last: int) -> None:
        overflow = last - self._capacity + 1 - self._floor
        if overflow > 0:
            self._drop(min(overflow, self._capacity), "overflow")
            self._floor = self._settled_to = last - self._capacity + 1

    def _completed(self, steps: Integers) -> list[AlignedSteps]:
        slots = steps % self._capacity
        present = self._present[slots]
        full = (present | self._excused).all(axis=1) & present.any(axis=1) & ~self._done[slots]
        steps, slots, present = steps[full], slots[full], present[full]
        if not len(steps):
            return []
        self._done[slots] = True
        changes = np.flatnonzero((present[1:] != present[:-1]).any(axis=1)) + 1
        return [
            self._aligned(steps[begin:end], slots[begin:end])
            for begin, end in pairwise([0, *changes.tolist(), len(steps)])
        ]

    def _aligned(self, steps: Integers, slots: Integers) -> AlignedSteps:
        """Steps that the same ranks have told."""
        told = self._present[slots[0]]
        ranks = sorted(rank for rank, column in self._columns.items() if told[column])
        columns = [self._columns[rank] for rank in ranks]
        return AlignedSteps(
            ranks=tuple(ranks),
            step=steps,
            tags=self._tags[slots],
            values=self._values[slots][:, columns],
        )

    def _settle(self) -> None:
        """Move the floor past every step that all ranks have passed."""
        awaited = self._reached[~self._excused]
        passed = int((awaited if len(awaited) else self._reached).min()) + 1 - self._floor
        if passed > 0:
            self._drop(passed, "missing")
            self._floor += passed
            self._settled_to = self._floor

    def _drop(self, count: int, reason: str) -> None:
        slots = (self._floor + np.arange(count)) % self._capacity
        lost = self._present[slots].any(axis=1) & ~self._done[slots]
        if lost.any():
            self.incomplete[reason] += int(lost.sum())
        self._present[slots] = False
        self._done[slots] = False
        self._tags[slots] = 0

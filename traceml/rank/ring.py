"""A ring of fixed-size records between the training thread and the sender's."""

from array import array

import numpy as np

from traceml.rank.slots import WIDTH
from traceml.wire.columns import Integers

CAPACITY = 16_384  # a quarter second at 65 000 steps a second


class Ring:
    """One writer, one reader, no lock; a full ring overwrites its oldest records.

    Copying a slice of an `array` is one bytecode under the GIL, so the reader
    never sees half a record; what was overwritten while it looked, it discards.
    """

    __slots__ = ("_capacity", "_cells", "_read", "dropped", "written")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._cells = array("q", bytes(8 * WIDTH * capacity))
        self._read = 0
        self.written = 0
        self.dropped = 0

    def push(self, row: list[int]) -> None:
        """Add one record; the writer's side."""
        at = self.written % self._capacity * WIDTH
        self._cells[at : at + WIDTH] = array("q", row)
        self.written += 1

    def take(self) -> Integers:
        """Remove and return all records, oldest first; the reader's side."""
        end = self.written
        first = max(self._read, self._oldest())
        rows = self._copy(first, end)
        kept = min(max(first, self._oldest()), end)
        self.dropped += kept - self._read
        self._read = end
        return rows[kept - first :]

    def _oldest(self) -> int:
        # One slot less than the ring holds: the next may be half-way replaced.
        return self.written - self._capacity + 1

    def _copy(self, first: int, end: int) -> Integers:
        start, stop = first % self._capacity, end % self._capacity
        if first == end:
            cells = array("q")
        elif start < stop:
            cells = self._cells[start * WIDTH : stop * WIDTH]
        else:
            cells = self._cells[start * WIDTH :] + self._cells[: stop * WIDTH]
        return np.frombuffer(cells, dtype=np.int64).reshape(-1, WIDTH)

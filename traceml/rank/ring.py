"""A ring of finished records between the training thread and the sender's."""

from collections import deque

from traceml.rank.slots import STEP, Row

CAPACITY = 65_536  # a quarter second at 260 000 steps a second


class Ring:
    """One writer, one reader, no lock; a full ring loses its oldest records.

    A bounded deque's own operations are atomic. Steps are numbered, so the
    reader sees by a gap what was lost.
    """

    __slots__ = ("_expected", "_rows", "dropped", "push")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._rows: deque[Row] = deque(maxlen=capacity)
        self._expected = 0
        self.dropped = 0
        self.push = self._rows.append  # the writer's side, without a call in between

    def take(self) -> list[Row]:
        """Remove and return all records, oldest first; the reader's side."""
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        for row in rows:
            self.dropped += row[STEP] - self._expected
            self._expected = row[STEP] + 1
        return rows

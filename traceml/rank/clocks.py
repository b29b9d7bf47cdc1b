"""The same steps by two clocks, the CPU's and the device's; on the sender's thread.

Where steps end depends on what the entries are and not on their times. So two replays of
the same entries, each with its own times, count the same steps, and a step of one finds
its counterpart in the other.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from traceml.rank.device_clock import DeviceClock
from traceml.rank.device_replay import DeviceReplay
from traceml.rank.events import DEVICE, Entry, Recorder
from traceml.rank.replay import Replay
from traceml.rank.slots import (
    BACKWARDS,
    ELEMENTS,
    FORWARDS,
    SAMPLES,
    STEP,
    Row,
)

HELD_STEPS = 4_096  # until their times on the device are there

# By the CPU's clock, and by the device's if that is known.
Step = tuple[Row, Row | None]


class Clocks:
    """Turns the entries of one process into steps by both clocks.

    While the device keeps time, a step is held until the device has told its times, or
    has told that it won't.
    """

    def __init__(self, recorder: Recorder, device: DeviceClock | None = None) -> None:
        self.replay = Replay(recorder)
        self._clock = device
        self._timed = None if device is None else DeviceReplay(recorder)
        self._held: deque[Row] = deque()
        self._rows: deque[Row] = deque()  # by the device's clock, of steps that are held

    def feed(self, entries: Sequence[Entry], lost: bool = False) -> list[Step]:
        """Go on with these entries; returns the steps that are over now."""
        if self._clock is None:
            return [(row, None) for row in self.replay.feed(entries, lost)]
        self._held += self.replay.feed([entry for entry in entries if entry[0] < DEVICE], lost)
        if self._timed is not None:
            self._rows += self._timed.feed(entries)
            if lost:  # nobody knows which times belong to which entries
                self._stop()
            elif self._timed.is_over:
                self._timed = None
        return list(self._matched())

    @property
    def device_phase(self) -> str:
        """The phase that the device is in; empty if it has done all it was told to, or if nobody
        knows. To be asked while the training thread stands still.
        """
        if self._clock is None or self._timed is None:
            return ""
        passed = self._clock.marks_passed()
        return "" if passed is None else self._timed.phase_after(passed)

    def finish(self) -> list[Step]:
        """There will be no more entries: settle what was open."""
        self._held += self.replay.finish()
        if self._timed is not None:
            self._rows += self._timed.finish()
            self._timed = None
        return list(self._matched())

    def _matched(self) -> Iterator[Step]:
        """The oldest steps that are held, as long as there is no reason to hold them."""
        while self._held:
            while self._rows and self._rows[0][STEP] < self._held[0][STEP]:
                self._rows.popleft()
            if not (self._rows or self._is_overdue()):
                return
            row = self._held.popleft()
            yield row, self._counterpart_of(row)

    def _is_overdue(self) -> bool:
        return self._timed is None or len(self._held) > HELD_STEPS

    def _counterpart_of(self, row: Row) -> Row | None:
        if not self._rows or self._rows[0][STEP] != row[STEP]:
            return None
        counterpart = self._rows.popleft()
        if all(row[slot] == counterpart[slot] for slot in (FORWARDS, BACKWARDS, SAMPLES, ELEMENTS)):
            return counterpart
        self._stop()  # they have come to count differently
        return None

    def _stop(self) -> None:
        self._timed = None
        self._rows.clear()
        if self._clock is not None:
            self._clock.stop()

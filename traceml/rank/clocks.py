"""The same steps by two clocks, the CPU's and the device's; on the sender's thread.

Where steps end depends on what the entries are and not on their times. So two replays of
the same entries, each with its own times, count the same steps, and a step of one finds
its counterpart in the other.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from traceml.rank.device import DeviceClock, ends_segment
from traceml.rank.events import ABANDON, DEVICE, DEVICE_END, DEVICE_TIMES, Entry, Recorder
from traceml.rank.replay import Replay
from traceml.rank.slots import (
    BACKWARDS,
    ELEMENTS,
    FORWARDS,
    SAMPLES,
    STEP,
    UNTIMED,
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


class DeviceReplay:
    """The replay by the device's clock: of each segment as soon as its times are known."""

    def __init__(self, recorder: Recorder) -> None:
        self.is_over = False
        self._recorder = recorder
        self._unheard = Recorder(capacity=1)  # what there is to say the other replay has said
        self._replay = Replay(self._unheard)
        self._segment: list[Entry] = []
        self._marks = 0  # in it
        self._waiting: deque[list[Entry]] = deque()
        self._began = False

    def feed(self, entries: Sequence[Entry]) -> list[Row]:
        """Go on with these entries; returns the steps that are over now."""
        self._unheard.thread = thread = self._recorder.thread
        self._unheard.optimizers_made = self._recorder.optimizers_made
        rows: list[Row] = []
        for entry in entries:
            if entry[2] != thread:
                continue
            code, value, _ = entry
            if code == DEVICE_TIMES and self._waiting:
                rows += self._play(self._waiting.popleft(), value)
            elif code < DEVICE:
                self._add(entry)
            elif code == DEVICE:
                rows += self._begin()
            elif code == DEVICE_END:
                self.is_over = True
        return rows

    def finish(self) -> list[Row]:
        """There will be no more entries, nor times."""
        rows = [row for segment in self._waiting for row in self._play(segment, None)]
        self._waiting.clear()
        return [*rows, *self._play(self._segment, None), *self._replay.finish()]

    def _begin(self) -> list[Row]:
        """From here on each mark has its time; those before have none."""
        self._began = True
        before, self._segment, self._marks = self._segment, [], 0
        return self._play(before, None)

    def _add(self, entry: Entry) -> None:
        self._segment.append(entry)
        if entry[0] > ABANDON:
            return
        self._marks += 1
        if self._began and ends_segment(entry[0], self._marks):
            self._waiting.append(self._segment)
            self._segment, self._marks = [], 0

    def _play(self, segment: list[Entry], times: list[int] | None) -> list[Row]:
        if times is None or len(times) != sum(code <= ABANDON for code, _, _ in segment):
            return self._play_untimed(segment)
        now = iter(times)
        return self._replay.feed(
            [
                (code, next(now) if code <= ABANDON else value, thread)
                for code, value, thread in segment
            ]
        )

    def _play_untimed(self, segment: list[Entry]) -> list[Row]:
        """All at the last known time, in steps that are worth nothing, the one after included."""
        rows: list[Row] = []
        phases = self._replay.phases
        for code, value, thread in segment:
            phases.count(UNTIMED, 1)
            rows += self._replay.feed([(code, phases.since if code <= ABANDON else value, thread)])
        phases.count(UNTIMED, 1)
        return rows

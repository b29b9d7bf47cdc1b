"""The steps by the device's clock: the same entries, each at the time the device passed it."""

from collections import deque
from collections.abc import Sequence

from traceml.rank import events
from traceml.rank.device_clock import Answer, ends_segment
from traceml.rank.events import ABANDON, DEVICE, DEVICE_END, DEVICE_TIMES, Entry, Recorder
from traceml.rank.lead import Lead
from traceml.rank.replay import Replay
from traceml.rank.slots import (
    BACKWARD,
    COLLECTIVE_WAIT,
    DATALOADER,
    DEVICE_IDLE,
    FORWARD,
    H2D,
    LOSS,
    OPTIMIZER,
    PHASE_NAMES,
    UNTIMED,
    Row,
)

_COMPUTE = (FORWARD, LOSS, BACKWARD, OPTIMIZER)

_ENTERED = {
    events.FETCH: DATALOADER,
    events.FETCH_EVAL: DATALOADER,
    events.COPY: H2D,
    events.FORWARD_EVAL: FORWARD,
    events.FORWARD_UNSURE: FORWARD,
    events.FORWARD_QUIET: FORWARD,
    events.FORWARD_TRAIN: FORWARD,
    events.FORWARD_FROZEN: FORWARD,
    events.BACKWARD: BACKWARD,
    events.READY: COLLECTIVE_WAIT,
    events.GRADIENT: BACKWARD,
    events.OPTIMIZER: OPTIMIZER,
    events.WAIT: COLLECTIVE_WAIT,
}
_LEFT = {
    events.FETCH_END: DATALOADER,
    events.COPY_END: H2D,
    events.FORWARD_END: FORWARD,
    events.BACKWARD_END: BACKWARD,
    events.GRADIENT_END: BACKWARD,
    events.OPTIMIZER_END: OPTIMIZER,
    events.WAIT_END: COLLECTIVE_WAIT,
}


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
        self._lead = Lead()

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

    def phase_after(self, marks: int) -> str:
        """The phase that a device is in which has passed so many of the marks that wait for
        their times; empty if there are no more than these.
        """
        waiting = [entry for segment in (*self._waiting, self._segment) for entry in segment]
        ahead = [code for code, _, _ in waiting if code <= ABANDON]
        if marks >= len(ahead):
            return ""
        around = self._replay.phases.stack()
        for code in ahead[:marks]:
            if code in _ENTERED:
                around.append(_ENTERED[code])
            elif _LEFT.get(code) in around:
                while around.pop() != _LEFT[code]:
                    pass
            elif code in (events.SCOPE_END, ABANDON):
                around.clear()
        return PHASE_NAMES[around[-1]] if around else "other"

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

    def _play(self, segment: list[Entry], answer: Answer) -> list[Row]:
        marks = [cpu for code, cpu, _ in segment if code <= ABANDON]
        if answer is None or len(answer[0]) != len(marks):
            self._lead.interrupt()
            return self._play_untimed(segment)
        times, not_passed_ns = answer
        idle = iter(self._lead.idle(marks, times, not_passed_ns))
        now = iter(times)
        rows: list[Row] = []
        for code, value, thread in segment:
            if code > ABANDON:
                rows += self._replay.feed([(code, value, thread)])
                continue
            self._charge_idle(next(idle))
            rows += self._replay.feed([(code, next(now), thread)])
        return rows

    def _charge_idle(self, idle_ns: int) -> None:
        phases = self._replay.phases
        if idle_ns and phases.current in _COMPUTE:
            phases.row[DEVICE_IDLE] += idle_ns

    def _play_untimed(self, segment: list[Entry]) -> list[Row]:
        """All at the last known time, in steps that are worth nothing, the one after included."""
        rows: list[Row] = []
        phases = self._replay.phases
        for code, value, thread in segment:
            phases.count(UNTIMED, 1)
            rows += self._replay.feed([(code, phases.since if code <= ABANDON else value, thread)])
        phases.count(UNTIMED, 1)
        return rows

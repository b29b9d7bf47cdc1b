"""The device's clock: what the training thread does so that the device keeps time as well.

A kernel runs some time after the call that queues it. So beside each entry an event is
recorded on the stream that the training computes on, and the time between two events is
what the device spent between the two entries. What runs on other streams is hidden behind
that, unless the compute stream waits for it. Nobody waits for an event: at the marks where
steps end, those that have passed meanwhile are read, and their times follow the entries to
the sender's thread.
"""

import functools
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import get_ident
from time import perf_counter_ns as now_ns
from typing import Any

import torch

from traceml.rank.device import Backend, Event, backend_of
from traceml.rank.events import (
    ABANDON,
    BACKWARD,
    DEVICE,
    DEVICE_END,
    DEVICE_TIMES,
    OPTIMIZER_END,
    SCOPE_END,
    Entry,
    Recorder,
)
from traceml.rank.patches import Patches

SEGMENT_MARKS = 64
PENDING_SEGMENTS = 64  # so many steps a device may be behind, and that many marks
SETTLED_A_MARK = 4  # segments
_STREAMS = 64

STOPPED = "The device's clock could not be read to the end: the last steps have none of its times."

# When the device passed each mark of a segment, and when the CPU last found that it had not
# passed the last of them, 0 if it never did; None if nobody knows.
Answer = tuple[list[int], int] | None

# In a backward, on whichever of autograd's threads.
_backward_under_way = torch._C._current_graph_task_id


def keep_time(recorder: Recorder, device: torch.device) -> None:
    """Have entries timed by this device too, if it has a clock and hooks may be diverted."""
    backend = backend_of(device)
    if backend is not None and recorder.is_divertible:
        DeviceClock(recorder, backend).start()


def hook_captures(module: Any, clock: "DeviceClock", patches: Patches) -> None:
    """Follow the capture of graphs: to ask for an event meanwhile, on any thread, ends it."""

    def saying(is_captured: bool) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            @functools.wraps(original)
            def capture(*args: Any, **kwargs: Any) -> Any:
                clock.is_captured = True
                try:
                    return original(*args, **kwargs)
                finally:
                    clock.is_captured = is_captured

            return capture

        return make

    graph = getattr(module, "CUDAGraph", None) or getattr(module, "XPUGraph", None)
    if graph is not None:
        patches.replace(graph, "capture_begin", saying(True))
        patches.replace(graph, "capture_end", saying(False))


def ends_segment(code: int, marks: int) -> bool:
    """Whether a segment of so many marks is over with this one."""
    return code in (OPTIMIZER_END, SCOPE_END) or marks == SEGMENT_MARKS


def _key(stream: Any) -> tuple[Any, Any]:
    """By which streams are told apart; another kind of thing has none of them."""
    return getattr(stream, "device_index", None), getattr(stream, "stream_id", None)


class DeviceClock:
    """Records an event for each entry of the training thread, and reads those that passed.

    Events are had in segments, which end where a step may or when they are full. For each
    there is one answer, in their order: the times of its marks, or None.
    """

    def __init__(self, recorder: Recorder, backend: Backend) -> None:
        self._recorder = recorder
        self._backend = backend
        self._stream: Any = None  # that the training computes on
        self._stream_key = _key(None)
        self._segment: list[Event | None] = []  # None: that mark has no event
        self._pending: deque[list[Event | None]] = deque()
        self._not_passed_ns = 0  # when the oldest of these was last found to lie ahead
        self._free: list[Event] = []
        self._base: Event | None = None  # the last that was read, from which the next count
        self._base_ns = 0
        self._copied_on: set[tuple[Any, Any]] = set()  # other streams: batches are copied ahead
        self.is_captured = False  # a graph is being made: other threads must ask for nothing

    def start(self) -> None:
        """From now on all entries of the training thread have events."""
        try:
            self._follow()
            self._recorder.price_ns += self._price_of_a_mark()
        except Exception:  # say, of a backend that has no events
            self._recorder.faults += 1
            self.stop()
            return
        self._recorder.device = self
        self._recorder.divert(self.append)
        self._recorder.note(DEVICE)

    def stop(self) -> None:
        """Record nothing more, for good; on any thread."""
        self._recorder.device = None
        self._recorder.divert(self._recorder.keep)
        self._recorder.notes[STOPPED] = None

    def append(self, entry: Entry, event: Event | None = None) -> None:
        """Keep an entry and record its event, unless it is known already."""
        self._recorder.keep(entry)
        code, _, thread = entry
        is_on = self._recorder.device is self
        if is_on and code <= ABANDON and thread == self._recorder.thread:
            try:
                self._mark(code, event)
            except Exception:
                self._fail()

    def is_training(self) -> bool:
        """Whether this thread is at work for the training: it is the training's own, or one of
        those on which autograd runs the backward of a device.
        """
        return get_ident() == self._recorder.thread or _backward_under_way() != -1

    def computes_on(self, stream: Any) -> bool:
        """Whether this is the stream that the training computes on."""
        return _key(stream) == self._stream_key

    def is_exposed(self) -> bool:
        """Whether what this thread queues now delays the training."""
        try:
            return self.is_training() and self.computes_on(self._backend.stream())
        except Exception:
            self._fail()
            return False

    def is_delayed_by_copy(self) -> bool:
        """Whether a copy that this thread queues now delays the training. One on another stream
        does not, but may yet: when the training waits for it.
        """
        if self.is_exposed():
            return True
        try:
            if len(self._copied_on) < _STREAMS:
                self._copied_on.add(_key(self._backend.stream()))
        except Exception:
            self._fail()
        return False

    def copies_on(self, stream: Any) -> bool:
        """Whether copies were seen on this stream; of an event nobody knows whose it is."""
        return bool(self._copied_on) and _key(stream) in self._copied_on

    def stamp(self) -> Event | None:
        """An event for an entry that may follow."""
        try:
            return self._record()
        except Exception:
            self._fail()
            return None

    def release(self, event: Event | None) -> None:
        """Take back an event that no entry needs."""
        if event is not None:
            self._free.append(event)

    def settle(self) -> None:
        """Read all that can be read now: there will be no other mark."""
        try:
            if not self._backend.is_capturing():
                self._settle(PENDING_SEGMENTS)
        except Exception:
            self._fail()

    def marks_passed(self) -> int | None:
        """How many of the marks that were not read yet the device has passed; None if nobody
        can tell. For another thread, while the training's stands still.
        """
        try:
            passed = 0
            for segment in (*self._pending, self._segment):
                for event in segment:
                    if self.is_captured or (event is not None and not event.query()):
                        return None if self.is_captured else passed
                    passed += 1
            return passed
        except Exception:  # say, it stands still no longer
            return None

    def _mark(self, code: int, event: Event | None) -> None:
        if code == BACKWARD:
            self._follow()
        segment = self._segment
        segment.append(self._record() if event is None else event)
        if ends_segment(code, len(segment)):
            self._segment = []
            self._pending.append(segment)
            if len(self._pending) > PENDING_SEGMENTS:
                self._answer(self._pending.popleft(), None)
            if segment[-1] is not None:
                self._settle(SETTLED_A_MARK)

    def _follow(self) -> None:
        """The training computes on the stream on which it calls for its gradients."""
        self._stream = stream = self._backend.stream()
        self._stream_key = _key(stream)

    def _record(self) -> Event | None:
        if self._backend.is_capturing():  # it would become a part of the graph
            return None
        try:
            event = self._free.pop()
        except IndexError:
            event = self._backend.make()
        event.record(self._stream)
        return event

    def _settle(self, at_most: int) -> None:
        for _ in range(min(at_most, len(self._pending))):
            segment = self._pending[0]
            events = [event for event in segment if event is not None]
            is_whole = len(events) == len(segment)
            if is_whole and not events[-1].query():
                self._not_passed_ns = now_ns()
                return
            self._pending.popleft()
            self._answer(segment, self._times_of(events) if is_whole else None)

    def _times_of(self, events: Sequence[Event]) -> list[int] | None:
        """When the device passed these, or None if streams have overtaken each other."""
        base = events[0] if self._base is None else self._base
        try:
            since = [round(base.elapsed_time(event) * 1e6) for event in events]
        except RuntimeError:
            if all(event.query() for event in events):
                raise
            return None
        return list(accumulate((self._base_ns + max(ns, 0) for ns in since), max))

    def _answer(self, segment: list[Event | None], times: list[int] | None) -> None:
        if self._base is not None:
            self._free.append(self._base)
        self._base = None
        answer: Answer = None
        if times is not None:
            answer = times, self._not_passed_ns
            self._base, self._base_ns = segment.pop(), times[-1]
        self._not_passed_ns = 0
        self._free += (event for event in segment if event is not None)
        self._recorder.keep((DEVICE_TIMES, answer, self._recorder.thread))

    def _fail(self) -> None:
        """Nothing of ours may raise into the training: count it, and keep time no more."""
        self._recorder.faults += 1
        self.stop()
        self._recorder.keep((DEVICE_END, 1, self._recorder.thread))

    def _price_of_a_mark(self, samples: int = 15) -> int:
        """What recording an event and reading it adds to the price of an entry: at the least,
        because on a busy machine most samples are others' work, and what is below some prices
        of ours counts for nothing.
        """
        prices = []
        before: Event | None = None
        for _ in range(samples):
            bytes(4 << 20)  # as for that price: everything else out of the caches
            begin = now_ns()
            event = self._record()
            if event is not None and before is not None and before.query():
                before.elapsed_time(before)
            prices.append(now_ns() - begin)
            self.release(before)
            before = event
        self.release(before)
        return min(prices[1:])  # the first had nothing to read


# What runs at each mark, and must not be compiled where a backward runs in compiled code.
CALLBACKS = (
    DeviceClock.append, DeviceClock._mark, DeviceClock._follow, DeviceClock._record,
    DeviceClock._settle, DeviceClock._times_of, DeviceClock._answer, ends_segment,
)  # fmt: skip

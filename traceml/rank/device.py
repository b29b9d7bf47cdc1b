"""The device's clock: what the training thread does so that the device keeps time as well.

A kernel runs some time after the call that queues it. So beside each entry an event is
recorded on the device's stream, and the time between two events is what the device spent
between the two entries. Nobody waits for an event: at the marks where steps end, those that
have passed meanwhile are read, and their times follow the entries to the sender's thread.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any, Protocol

import torch

from traceml.rank.events import (
    ABANDON,
    DEVICE,
    DEVICE_END,
    DEVICE_TIMES,
    OPTIMIZER_END,
    SCOPE_END,
    Entry,
    Recorder,
)

SEGMENT_MARKS = 64
PENDING_SEGMENTS = 64  # so many steps a device may be behind, and that many marks
SETTLED_A_MARK = 4  # segments

STOPPED = "The device's clock could not be read to the end: the last steps have none of its times."


class Event(Protocol):
    """A point in a device's stream: `torch.Event`, `torch.cuda.Event`."""

    def record(self, stream: Any) -> object:
        """Put it at the end of what is queued."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this event to another."""


@dataclass(frozen=True, slots=True)
class Backend:
    """How events are had on one device."""

    make: Callable[[], Event]
    stream: Callable[[], Any]
    is_capturing: Callable[[], bool]


def may_be_used() -> bool:
    """Whether this torch could use an accelerator. Asking for a device would start its
    driver, and a process that forks after that can't use it in its children.
    """
    kinds = (getattr(torch.version, kind, None) for kind in ("cuda", "hip", "xpu"))
    named = torch._C._get_privateuse1_backend_name() != "privateuseone"
    return named or any(kinds) or bool(torch.backends.mps.is_built())


def trained_on(models: Iterable[torch.nn.Module]) -> torch.device:
    """The device that holds most of what is trained."""
    sizes: Counter[torch.device] = Counter()
    for parameter in {id(p): p for model in models for p in model.parameters()}.values():
        sizes[parameter.device] += parameter.numel() * parameter.requires_grad
    return max(sizes, key=sizes.__getitem__, default=torch.device("cpu"))


def backend_of(device: torch.device) -> Backend | None:
    """How to have events on this device; None where the CPU's clock has to do."""
    module = getattr(torch, device.type, None)
    if module is None or device.type in ("cpu", "mps", "meta"):
        return None
    is_capturing = getattr(module, "is_current_stream_capturing", lambda: False)
    if hasattr(torch, "accelerator"):
        make = partial(torch.Event, device=device, enable_timing=True)
        return Backend(make, partial(torch.accelerator.current_stream, device), is_capturing)
    make = partial(module.Event, enable_timing=True)
    return Backend(make, partial(module.current_stream, device), is_capturing)


def keep_time(recorder: Recorder, device: torch.device) -> None:
    """Have entries timed by this device too, if it has a clock and hooks may be diverted."""
    backend = backend_of(device)
    if backend is not None and recorder.is_divertible:
        DeviceClock(recorder, backend).start()


def ends_segment(code: int, marks: int) -> bool:
    """Whether a segment of so many marks is over with this one."""
    return code in (OPTIMIZER_END, SCOPE_END) or marks == SEGMENT_MARKS


class DeviceClock:
    """Records an event for each entry of the training thread, and reads those that passed.

    Events are had in segments, which end where a step may or when they are full. For each
    there is one answer, in their order: the times of its marks, or None.
    """

    def __init__(self, recorder: Recorder, backend: Backend) -> None:
        self._recorder = recorder
        self._backend = backend
        self._segment: list[Event | None] = []  # None: that mark has no event
        self._pending: deque[list[Event | None]] = deque()
        self._free: list[Event] = []
        self._base: Event | None = None  # the last that was read, from which the next count
        self._base_ns = 0

    def start(self) -> None:
        """From now on all entries of the training thread have events."""
        try:
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

    def stamp(self) -> Event | None:
        """An event for an entry that may follow; None on other threads than the training's."""
        if get_ident() != self._recorder.thread:
            return None
        try:
            return self._record()
        except Exception:
            self._fail()
            return None

    def release(self, event: Event) -> None:
        """Take back an event that no entry needs."""
        self._free.append(event)

    def settle(self) -> None:
        """Read all that can be read now: there will be no other mark."""
        try:
            if not self._backend.is_capturing():
                self._settle(PENDING_SEGMENTS)
        except Exception:
            self._fail()

    def _mark(self, code: int, event: Event | None) -> None:
        segment = self._segment
        segment.append(self._record() if event is None else event)
        if ends_segment(code, len(segment)):
            self._segment = []
            self._pending.append(segment)
            if len(self._pending) > PENDING_SEGMENTS:
                self._answer(self._pending.popleft(), None)
            if segment[-1] is not None:
                self._settle(SETTLED_A_MARK)

    def _record(self) -> Event | None:
        backend = self._backend
        if backend.is_capturing():  # it would become a part of the graph
            return None
        event = self._free.pop() if self._free else backend.make()
        event.record(backend.stream())
        return event

    def _settle(self, at_most: int) -> None:
        for _ in range(min(at_most, len(self._pending))):
            segment = self._pending[0]
            events = [event for event in segment if event is not None]
            is_whole = len(events) == len(segment)
            if is_whole and not events[-1].query():
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
        if times is not None:
            self._base, self._base_ns = segment.pop(), times[-1]
        self._free += (event for event in segment if event is not None)
        self._recorder.keep((DEVICE_TIMES, times, self._recorder.thread))

    def _fail(self) -> None:
        """Nothing of ours may raise into the training: count it, and keep time no more."""
        self._recorder.faults += 1
        self.stop()
        self._recorder.keep((DEVICE_END, 1, self._recorder.thread))

    def _price_of_a_mark(self, samples: int = 15) -> int:
        """What recording an event and reading it adds to the price of an entry."""
        prices = []
        for _ in range(samples):
            bytes(4 << 20)  # as for that price: everything else out of the caches
            begin = clock()
            event = self._record()
            if event is not None:
                event.query()
                self._free.append(event)
            prices.append(clock() - begin)
        return sorted(prices)[samples // 2]


# What runs at each mark, and must not be compiled where a backward runs in compiled code.
CALLBACKS = (
    DeviceClock.append, DeviceClock._mark, DeviceClock._record, DeviceClock._settle,
    DeviceClock._times_of, DeviceClock._answer, ends_segment,
)  # fmt: skip

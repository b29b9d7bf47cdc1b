"""The recorder: at any instant the step is in exactly one phase.

Hooks enter and leave phases on the training thread; each change charges the
time since the last one to the phase that was current, so nested phases never
count twice and the phases of a step add up to it exactly.
"""

from threading import get_ident
from time import perf_counter_ns as clock

from traceml.rank.ring import Ring
from traceml.rank.slots import (
    ABSENT,
    BACKWARD,
    COLLECTIVE_WAIT,
    DATALOADER,
    ELEMENTS,
    END_NS,
    FORWARD,
    H2D,
    IDLE,
    LOSS,
    MARKS,
    OTHER,
    OVERHEAD_NS,
    RESIDENT_BYTES,
    SAMPLES,
    STEP,
    STEP_NS,
    TAGS,
    WIDTH,
)
from traceml.wire.columns import Tag

NOBODY = 0  # no thread has this identity: every hook passes through


class Recorder:
    """Fills one record a step and puts it into the ring.

    Written for speed: flat, a list of integers, no lock, no allocation but the
    record itself. Only the thread in `thread` may call it.
    """

    __slots__ = (
        "_around",
        "_blank",
        "_finish_ns",
        "_mark_ns",
        "_slots",
        "_start",
        "current",
        "faults",
        "optimizer_depth",
        "resident_bytes",
        "ring",
        "since",
        "steps",
        "thread",
        "unmarked",
    )

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.thread = get_ident()
        self.steps = 0
        self.faults = 0
        self.resident_bytes = ABSENT
        self.optimizer_depth = 0
        self.unmarked = False
        self._blank = [0] * WIDTH
        for slot in (DATALOADER, H2D, FORWARD, COLLECTIVE_WAIT, SAMPLES, ELEMENTS):
            self._blank[slot] = ABSENT
        self._slots = self._blank.copy()
        self._slots[TAGS] = Tag.WARMUP
        self._around = OTHER
        self._finish_ns = 0
        self._mark_ns = 0
        self.current = IDLE
        self.since = self._start = clock()
        self._calibrate()

    def measures(self, *slots: int) -> None:
        """From now on these slots are measured: 0 where nothing happens, not absent."""
        for slot in slots:
            self._blank[slot] = 0
            self._slots[slot] = max(self._slots[slot], 0)

    def silence(self) -> None:
        """Make every hook pass through, for good."""
        self.thread = NOBODY

    def enter(self, phase: int) -> int:
        """Begin a phase; returns the one to hand to `leave`."""
        now = clock()
        previous = self.current
        self._slots[previous] += now - self.since
        self.current = phase
        self.since = now
        return previous

    def leave(self, previous: int) -> None:
        """End the current phase and go back to the one before it."""
        now = clock()
        slots = self._slots
        slots[self.current] += now - self.since
        slots[MARKS] += 1
        self.current = previous or OTHER
        self.since = now

    def leave_forward(self, previous: int) -> None:
        """End a forward; what follows is the loss if a backward comes after it."""
        self.leave(previous)
        if previous != LOSS:
            self._around = self.current
        self.current = LOSS

    def enter_backward(self) -> int:
        """Begin a backward: what lies between forward and here was the loss."""
        previous = self.enter(BACKWARD)
        slots = self._slots
        slots[FORWARD] += slots[LOSS]
        slots[LOSS] = 0
        return self._around if previous == LOSS else previous

    def charge(self, phase: int, since: int) -> None:
        """Take the time from `since` until now out of the current phase and into another."""
        now = clock()
        slots = self._slots
        slots[self.current] += since - self.since
        slots[phase] += now - since
        slots[MARKS] += 1
        self.since = now

    def batch(self, samples: int, elements: int) -> None:
        """Note what a fetch brought."""
        slots = self._slots
        slots[SAMPLES] += samples
        slots[ELEMENTS] += elements

    def finish(self) -> None:
        """End the step, here and now, and begin the next."""
        now = clock()
        slots = self._slots
        slots[self.current] += now - self.since
        slots[OTHER] += slots[LOSS]
        slots[STEP] = self.steps
        slots[END_NS] = now
        slots[STEP_NS] = now - self._start - slots[IDLE]
        slots[OVERHEAD_NS] = slots[MARKS] * self._mark_ns + self._finish_ns
        slots[RESIDENT_BYTES] = self.resident_bytes
        if self.unmarked:
            slots[BACKWARD] = slots[COLLECTIVE_WAIT] = ABSENT
        self.ring.push(slots)
        self.steps += 1
        self._begin(now)
        self._finish_ns = clock() - now

    def abandon(self) -> None:
        """Forget the step under way: an exception ended it."""
        self._begin(clock())

    def _begin(self, now: int) -> None:
        self._slots[:] = self._blank
        self.current = OTHER
        self.since = self._start = now
        self.optimizer_depth = 0
        self.unmarked = False

    def _calibrate(self, pairs: int = 200) -> None:
        # Timing every mark would double its cost, so their price is taken once.
        begin = clock()
        for _ in range(pairs):
            self.leave(self.enter(IDLE))
        self._mark_ns = (clock() - begin) // pairs
        self._slots[IDLE] = self._slots[OTHER] = self._slots[MARKS] = 0
        self.current = IDLE
        self.since = self._start = clock()

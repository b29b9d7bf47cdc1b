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
    FINISH_NS,
    FORWARD,
    H2D,
    IDLE,
    LOSS,
    MARKS,
    OTHER,
    SAMPLES,
    STEP,
    TAGS,
    UNMARKED,
    WIDTH,
)
from traceml.wire.columns import Tag

NOBODY = 0  # no thread has this identity: every hook passes through


class Recorder:
    """Fills one record a step and puts it into the ring.

    Written for speed: between two steps its code and data leave the caches, and
    what is not there costs ten times as much. Hence a flat list of integers and
    no lock. Only the thread in `thread` may call it.
    """

    __slots__ = (
        "_around",
        "_blank",
        "_finish_ns",
        "_push",
        "current",
        "faults",
        "mark_ns",
        "optimizer_depth",
        "ring",
        "since",
        "slots",
        "steps",
        "thread",
    )

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.thread = get_ident()
        self.steps = 0
        self.faults = 0
        self.optimizer_depth = 0
        self._push = ring.push
        self._blank = [0] * WIDTH
        for slot in (DATALOADER, H2D, FORWARD, COLLECTIVE_WAIT, SAMPLES, ELEMENTS):
            self._blank[slot] = ABSENT
        self._around = OTHER
        self._finish_ns = 0
        self.slots = self._blank.copy()
        self.current = IDLE
        self.since = clock()
        self.mark_ns = self._price_of_a_mark()
        self._start(IDLE)
        self.slots[TAGS] = Tag.WARMUP

    def measures(self, *slots: int) -> None:
        """From now on these slots are measured: 0 where nothing happens, not absent."""
        for slot in slots:
            self._blank[slot] = 0
            self.slots[slot] = max(self.slots[slot], 0)

    def silence(self) -> None:
        """Make every hook pass through, for good."""
        self.thread = NOBODY

    def enter(self, phase: int) -> int:
        """Begin a phase; returns the one to hand to `leave`."""
        now = clock()
        previous = self.current
        self.slots[previous] += now - self.since
        self.current = phase
        self.since = now
        return previous

    def leave(self, previous: int) -> None:
        """End the current phase and go back to the one before it."""
        now = clock()
        slots = self.slots
        slots[self.current] += now - self.since
        slots[MARKS] += 1
        self.current = previous or OTHER
        self.since = now

    def leave_forward(self, previous: int) -> None:
        """End a forward; what follows is the loss if a backward comes after it."""
        now = clock()
        slots = self.slots
        slots[self.current] += now - self.since
        slots[MARKS] += 1
        if previous != LOSS:
            self._around = previous or OTHER
        self.current = LOSS
        self.since = now

    def enter_backward(self) -> int:
        """Begin a backward: what lies between forward and here was the loss."""
        now = clock()
        previous = self.current
        slots = self.slots
        slots[previous] += now - self.since
        slots[FORWARD] += slots[LOSS]
        slots[LOSS] = 0
        self.current = BACKWARD
        self.since = now
        return self._around if previous == LOSS else previous

    def charge(self, phase: int, since: int) -> None:
        """Take the time from `since` until now out of the current phase and into another."""
        now = clock()
        slots = self.slots
        slots[self.current] += since - self.since
        slots[phase] += now - since
        slots[MARKS] += 1
        self.since = now

    def finish(self) -> None:
        """End the step, here and now, and begin the next."""
        now = clock()
        slots = self.slots
        slots[self.current] += now - self.since
        slots[STEP] = self.steps
        slots[END_NS] = now
        slots[FINISH_NS] = self._finish_ns
        self._push(slots)
        self.slots = self._blank.copy()
        self.steps += 1
        self.current = OTHER
        self.since = now
        self.optimizer_depth = 0
        self._finish_ns = clock() - now

    def unmarked(self) -> None:
        """A backward ended without its mark: own work and waiting can't be told apart."""
        self.slots[UNMARKED] += 1

    def abandon(self) -> None:
        """Forget the step under way: an exception ended it."""
        self._start(OTHER)

    def _start(self, phase: int) -> None:
        self.slots = self._blank.copy()
        self.current = phase
        self.since = clock()
        self.optimizer_depth = 0

    def _price_of_a_mark(self, pairs: int = 15) -> int:
        """What entering and leaving a phase takes when the training has used the caches.

        Timing every mark in place would double its cost, so their price is taken once.
        """
        prices = []
        for _ in range(pairs):
            bytes(4 << 20)  # as the training does: everything else out of the caches
            begin = clock()
            self.leave(self.enter(IDLE))
            prices.append(clock() - begin)
        return sorted(prices)[pairs // 2]

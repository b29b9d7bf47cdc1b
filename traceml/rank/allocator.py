"""What the allocator of the device says: read once a second, on the training thread.

There, where a step ends, what is allocated is what stays allocated from step to step: a
floor. Nothing is reset, so what the user reads of peaks stays true. But a running peak
never falls: that of a step is told by it only if it has moved.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns as clock
from typing import Any

import torch

from traceml.rank.events import MEMORY, Recorder
from traceml.rank.readings import Reading
from traceml.rank.slots import ABSENT

EVERY_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stats:
    """What matters of `memory_stats`, in bytes."""

    allocated: int
    peak: int  # of that, since the process began or the user reset it
    reserved: int
    retries: int  # so far


def watch(recorder: Recorder, device: torch.device) -> None:
    """Have the allocator of this device read, if it has one that tells of itself."""
    module = getattr(torch, device.type, None)
    # The flat one is made of the nested one, at a cost.
    nested = getattr(module, "memory_stats_as_nested_dict", None)
    read = nested or getattr(module, "memory_stats", None)
    if read is not None and device.type != "cpu":
        recorder.allocator = Allocator(recorder, lambda: _stats(read(device)))


def _stats(told: Mapping[str, Any]) -> Stats | None:
    if not told:  # nobody has used the device yet
        return None
    return Stats(
        _figure(told, "allocated_bytes.all.current"),
        _figure(told, "allocated_bytes.all.peak"),
        _figure(told, "reserved_bytes.all.current"),
        int(told.get("num_alloc_retries", 0)),
    )


def _figure(told: Any, path: str) -> int:
    """A figure of a nested dictionary, or of a flat one."""
    if path in told:
        return int(told[path])
    for key in path.split("."):
        told = told[key]
    return int(told)


class Allocator:
    """Reads it when that is due. Where a backward begins, activations are all there: what is
    allocated then is the most that can be seen of a step.
    """

    def __init__(self, recorder: Recorder, stats: Callable[[], Stats | None]) -> None:
        self.due_ns = 0
        self._recorder = recorder
        self._stats = stats
        self._before: Stats | None = None  # at the reading before
        self._seen = 0  # allocated as a backward began, since then
        self._seen_at = 0
        self._seeing_ns = 0  # what that took
        self._margin = 0  # of the step's peak over what is seen of it
        self._knows_margin = False
        self._optimizes = False  # an optimizer says where steps end

    def backward_begins(self) -> None:
        """To be called once it is due."""
        try:
            self._see()
        except Exception:
            self._fail()

    def optimizer_ends(self) -> None:
        """To be called once it is due."""
        self._optimizes = True
        try:
            self._read(is_end=True)
        except Exception:
            self._fail()

    def scope_ends(self) -> None:
        """To be called once it is due. It does not matter after an optimizer's end: between the
        two, gradients may be freed, and floors must be read in one place to be compared.
        """
        if not self._optimizes:
            try:
                self._read(is_end=True)
            except Exception:
                self._fail()

    def _see(self) -> None:
        begin = clock()
        if self._seen_at and begin - self._seen_at > EVERY_NS:
            self._read(is_end=False)  # no end in sight, as where parameters are updated by hand
        elif not self._seen_at:
            stats = self._stats()
            if stats is None:
                return
            self._before = self._before or stats  # what was before tracing is no step's
            self._seen, self._seen_at = stats.allocated, begin
            self._seeing_ns = clock() - begin

    def _read(self, is_end: bool) -> None:
        begin = clock()
        stats = self._stats()
        self.due_ns = begin + EVERY_NS
        if stats is None:
            return
        before = self._before or stats
        reading = Reading(
            allocated=self._most(stats, before),
            reserved=stats.reserved,
            floor=stats.allocated if is_end else ABSENT,
            retries=max(stats.retries - before.retries, 0),  # the user may reset them
            retries_so_far=stats.retries,
            cost_ns=self._seeing_ns + clock() - begin,
        )
        self._before, self._seen, self._seen_at, self._seeing_ns = stats, 0, 0, 0
        self._recorder.append((MEMORY, reading, self._recorder.thread))

    def _most(self, stats: Stats, before: Stats) -> int:
        """The peak of the step. Where the running one stands still, it is above what was seen
        by as much as it was, at the least, when it rose.
        """
        seen = max(self._seen, stats.allocated)
        if stats.peak > before.peak:
            over = max(stats.peak - seen, 0)
            self._margin = min(self._margin, over) if self._knows_margin else over
            self._knows_margin = True
        if stats.peak != before.peak:  # it rose, or the user has reset it
            return max(stats.peak, seen)
        return max(min(stats.peak, seen + self._margin), seen)

    def _fail(self) -> None:
        """Nothing of ours may raise into the training: count it, and read no more."""
        self._recorder.faults += 1
        self._recorder.allocator = None


# What runs where a backward begins, and must not be compiled with it.
CALLBACKS: tuple[Callable[..., Any], ...] = (
    Allocator.backward_begins, Allocator.optimizer_ends, Allocator.scope_ends, Allocator._see,
    Allocator._read, Allocator._most, _stats, _figure,
)  # fmt: skip

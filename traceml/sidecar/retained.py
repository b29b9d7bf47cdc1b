"""The completed steps that a journal still holds, one by one; the oldest may be gone."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from traceml.report.rows import StepRow
from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.clock import KEPT, on_one_clock
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import numbers, path_of
from traceml.sidecar.recovery import Recovered, entries_of, read_checkpoint
from traceml.sidecar.refusal import RefusedError, UnknownSessionError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES
from traceml.wire.tags import Tag

_END = VALUES.index("end_ns")
_NOBODY = RunIdentity("", "", (), 0.0, None)


@dataclass(slots=True)
class Retained:
    """What could not be had of a journal's steps."""

    problems: list[str] = field(default_factory=list)
    unknown: int = 0  # batches of processes of which nothing is known any more


class _Aligning(Collector):
    """Aligns what the ranks tell, and keeps what is complete instead of counting it."""

    def __init__(self, run: RunIdentity) -> None:
        super().__init__(run)
        self.completed: list[AlignedSteps] = []

    @property
    def attempt(self) -> tuple[int, int]:
        return self._sessions.attempt

    def _complete(self, parts: Iterable[AlignedSteps], now: float) -> None:
        self.completed += parts


def retained_rows(folder: Path, retained: Retained, last: int | None = None) -> Iterator[StepRow]:
    """The steps in order, each rank's in turn; the `last` ones alone if that is asked for."""
    found = _aligned(folder, retained)
    for attempt, steps in found if last is None else _last(found, last):
        yield from _rows(attempt, steps)


def _aligned(folder: Path, retained: Retained) -> Iterator[tuple[int, AlignedSteps]]:
    recovered = Recovered()
    read_checkpoint(folder, recovered)
    known = _hellos(recovered.collector)
    collector = _Aligning(recovered.collector.run if recovered.collector else _NOBODY)
    attempts: dict[tuple[int, int], int] = {}
    for number in numbers(folder, "segment"):
        for entry in entries_of(path_of(folder, number, "segment"), recovered):
            _apply(collector, entry, known, retained)
            for steps in collector.completed:
                yield attempts.setdefault(collector.attempt, len(attempts)), steps
            collector.completed.clear()
    retained.problems += recovered.problems


def _apply(
    collector: _Aligning, entry: pb.Entry, known: dict[str, pb.Entry], retained: Retained
) -> None:
    try:
        collector.apply(entry)
    except UnknownSessionError:  # its hello was in a segment that is gone
        if entry.push.session not in known:
            retained.unknown += 1
            return
        collector.apply(known[entry.push.session])
        collector.apply(entry)
    except RefusedError:  # as it was when it was told
        return


def _hellos(collector: Collector | None) -> dict[str, pb.Entry]:
    """What the processes would say that the newest checkpoint knows, by session."""
    if collector is None:
        return {}
    ranks = collector.ranks.values()
    return {
        rank.session: pb.Entry(hello=pb.HelloRequest(session=rank.session, identity=rank.identity))
        for rank in ranks
    }


def _last(
    found: Iterator[tuple[int, AlignedSteps]], last: int
) -> Iterator[tuple[int, AlignedSteps]]:
    kept: deque[tuple[int, AlignedSteps]] = deque()
    held = 0
    for attempt, steps in found:
        kept.append((attempt, steps))
        held += len(steps)
        while held - len(kept[0][1]) >= last:
            held -= len(kept.popleft()[1])
    for number, (attempt, steps) in enumerate(kept):
        yield attempt, steps if number else steps[max(held - last, 0) :]


def _rows(attempt: int, steps: AlignedSteps) -> Iterator[StepRow]:
    values, on_device = on_one_clock(steps.values)
    for place, step in enumerate(steps.step.tolist()):
        tags = tuple(tag.label for tag in Tag if int(steps.tags[place]) & tag)
        clock = "device" if on_device[place] else "cpu"
        for column, rank in enumerate(steps.ranks):
            measured = zip(KEPT, values[place, column].tolist(), strict=True)
            known = {name: value for name, value in measured if value == value}
            ended_ns = float(np.nan_to_num(steps.values[place, column, _END]))
            yield StepRow(attempt, step, rank, tags, clock, ended_ns, known)

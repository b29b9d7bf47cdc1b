"""The completed steps that a journal still holds, one by one; the oldest may be gone."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from traceml.files import Folder, opened
from traceml.report.rows import StepRow
from traceml.sidecar.align import AlignedSteps
from traceml.sidecar.clock import KEPT, on_one_clock
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.recovery import Recovered, entries_from, read_checkpoint
from traceml.sidecar.refusal import UnknownSessionError
from traceml.sidecar.replay import replay
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

    def __init__(self, run: RunIdentity, known: dict[str, pb.Entry], retained: Retained) -> None:
        super().__init__(run)
        self.completed: list[AlignedSteps] = []
        self._known = known  # what processes would say whose hello may be gone, by session
        self._retained = retained
        self._at = 0.0  # the time of what is checked

    def check(self, entry: pb.Entry) -> None:
        """Check what the journal holds, as a collector does."""
        self._at = entry.at
        super().check(entry)

    def check_session(self, session: str) -> None:
        """Let a process speak whose hello was in a segment that is gone, if it is known."""
        try:
            super().check_session(session)
        except UnknownSessionError:
            if session not in self._known:
                self._retained.unknown += 1
                raise
            hello = self._known[session]
            hello.at = self._at
            self.apply(hello)

    @property
    def attempt(self) -> tuple[int, int]:
        return self._sessions.attempt

    def _complete(self, parts: Iterable[AlignedSteps], now: float) -> None:
        self.completed += parts


def retained_rows(journal: Path, retained: Retained, last: int | None = None) -> Iterator[StepRow]:
    """The steps in order, each rank's in turn; the `last` ones alone if that is asked for."""
    try:
        with opened(journal) as folder:
            found = _aligned(folder, retained)
            for attempt, steps in found if last is None else _last(found, last):
                yield from _rows(attempt, steps)
    except OSError as error:
        retained.problems.append(f"its folder is not readable: {error.strerror}")


def _aligned(folder: Folder, retained: Retained) -> Iterator[tuple[int, AlignedSteps]]:
    recovered = Recovered()
    read_checkpoint(folder, recovered)
    known = _hellos(recovered.collector)
    run = recovered.collector.run if recovered.collector else _NOBODY
    collector = _Aligning(run, known, retained)
    attempts: dict[tuple[int, int], int] = {}
    for entry in entries_from(folder, 0, recovered):
        unknown = retained.unknown
        if not replay(collector, entry) and retained.unknown == unknown:
            recovered.refuse(entry)
        for steps in collector.completed:
            yield attempts.setdefault(collector.attempt, len(attempts)), steps
        collector.completed.clear()
    retained.problems += recovered.problems


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

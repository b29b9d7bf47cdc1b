"""A run that was recorded: its folder, and its journal read step by step."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy.schedule import COMPUTE, Schedule
from traceml.report.summary import summary
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import FORMAT, numbers, path_of
from traceml.sidecar.recovery import FOLDER
from traceml.sidecar.refusal import RefusedError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import decode, encode
from traceml.wire.frames import read_frames

RUN_NAME = "run"


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder with a schedule, what the script measured, and what TraceML wrote."""

    folder: Path

    @property
    def schedule(self) -> Schedule:
        return Schedule.from_json(self.schedule_file.read_text(encoding="utf-8"))

    @property
    def schedule_file(self) -> Path:
        return self.folder / "schedule.json"

    @property
    def measured_file(self) -> Path:
        """What the script wrote: how long a healthy step is, and where segments begin."""
        return self.folder / "measured.json"

    @property
    def is_crowded(self) -> bool:
        """Whether ranks that compute had to share cores, and so really hold up each other."""
        measured = json.loads(self.measured_file.read_text(encoding="utf-8"))
        schedule = self.schedule
        return schedule.work == COMPUTE and schedule.world_size > int(measured["cores"])

    @property
    def stall_file(self) -> Path:
        """What was said of a run that stood still, while it did."""
        return self.folder / "stall.json"

    @property
    def load_file(self) -> Path:
        """How busy the machine was before the run."""
        return self.folder / "load.txt"

    @property
    def run_folder(self) -> Path:
        return self.folder / RUN_NAME

    def summary(self) -> dict[str, Any]:
        """What the run's summary says by the rules as they are now."""
        collector = Collector(self.identity())
        for entry in self.entries():
            with suppress(RefusedError):
                collector.apply(entry)
        return summary(collector.snapshot())

    def identity(self) -> RunIdentity:
        """The run, as the head of its journal has it."""
        head = next(each for each in self._payloads() if each.startswith(b"{"))
        return RunIdentity.of(json.loads(head))

    def entries(self) -> Iterator[pb.Entry]:
        """What the sidecar was told, in order, with a batch of its own for every step."""
        sequences: Counter[str] = Counter()
        for payload in self._payloads():
            if payload.startswith((FORMAT, b"{")):
                continue
            entry = pb.Entry.FromString(payload)
            if entry.push.batch.records:
                yield from _step_by_step(entry, sequences)
            else:
                yield entry

    def _payloads(self) -> Iterator[bytes]:
        folder = self.run_folder / FOLDER
        for number in numbers(folder, "segment"):
            yield from read_frames(path_of(folder, number, "segment").read_bytes()).payloads


def _step_by_step(entry: pb.Entry, sequences: Counter[str]) -> Iterator[pb.Entry]:
    session = entry.push.session
    records = decode(entry.push.batch)
    for row in range(len(records)):
        sequences[session] += 1
        batch = encode(records[row : row + 1], sequences[session], entry.push.batch.preceding + row)
        push = pb.PushRequest(session=session, heartbeat=entry.push.heartbeat, batch=batch)
        yield pb.Entry(at=entry.at, push=push)


def recordings(folder: Path) -> list[Recording]:
    """All that a folder holds."""
    return [Recording(each.parent) for each in sorted(folder.glob("*/schedule.json"))]

"""From the journal back to the run: the newest checkpoint that can be read, and all since."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError

from traceml.sidecar.checkpoint import UnreadableError, unpack
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import FORMAT, numbers, path_of
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import read_frames

FOLDER = "journal"  # in the folder of a run
_ANY_FORMAT = b"traceml journal"


@dataclass(slots=True)
class Recovered:
    """A run as its journal tells it."""

    collector: Collector | None = None  # None where nothing could be read
    entries: int = 0  # since the checkpoint
    until: float = 0.0  # unix time of the last entry
    damaged_bytes: int = 0
    torn_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def recover(folder: Path, run: RunIdentity | None) -> Recovered:
    """Read a run's journal; `run` is what it is if nothing in there can say so."""
    recovered = Recovered()
    first = read_checkpoint(folder, recovered)
    if recovered.collector is None and run is not None:
        recovered.collector = Collector(run)
    for number in numbers(folder, "segment"):
        if number >= first:
            _replay(path_of(folder, number, "segment"), recovered)
    return recovered


def read_checkpoint(folder: Path, recovered: Recovered) -> int:
    """Take the newest that can be read; returns its number, 0 if there is none."""
    for number in reversed(numbers(folder, "checkpoint")):
        try:
            data = path_of(folder, number, "checkpoint").read_bytes()
            state = unpack(data)
            recovered.collector = Collector.load(state["collector"])
            recovered.until = state["at"]
        except (OSError, UnreadableError, LookupError, TypeError) as error:
            recovered.problems.append(f"checkpoint {number} is {error}")
        else:
            return number
    return 0


def _replay(segment: Path, recovered: Recovered) -> None:
    for entry in entries_of(segment, recovered):
        if recovered.collector is None:
            return
        recovered.entries += 1
        recovered.until = max(recovered.until, entry.at)
        try:
            recovered.collector.apply(entry)
        except Exception:  # it was refused when it was told, and is refused again
            continue


def entries_of(segment: Path, recovered: Recovered) -> Iterator[pb.Entry]:
    """What a segment tells, as far as it can be read."""
    name = f"segment {int(segment.stem)}"
    try:
        frames = read_frames(segment.read_bytes())
    except OSError as error:
        recovered.problems.append(f"{name} is not readable: {error.strerror}")
        return
    recovered.damaged_bytes += frames.damaged_bytes
    recovered.torn_bytes += frames.torn_bytes
    if frames.damaged_bytes:
        recovered.problems.append(f"{frames.damaged_bytes} bytes of {name} are damaged")
    for payload in frames.payloads:
        if payload.startswith(_ANY_FORMAT):
            if payload != FORMAT:
                recovered.damaged_bytes += sum(map(len, frames.payloads))
                recovered.problems.append(f"{name} is of another format")
                return
        elif payload.startswith(b"{"):
            recovered.collector = recovered.collector or _collector_of(payload)
        else:
            try:
                yield pb.Entry.FromString(payload)
            except DecodeError:
                recovered.damaged_bytes += len(payload)


def _collector_of(payload: bytes) -> Collector | None:
    """A new one for the run that the head of a segment tells of."""
    try:
        return Collector(RunIdentity.of(json.loads(payload)))
    except (ValueError, LookupError, TypeError):
        return None

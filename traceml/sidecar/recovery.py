"""From the journal back to the run: the newest checkpoint that can be read, and all since."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError

from traceml.files import Folder, limits, opened, parse_json, read_in
from traceml.sidecar.checkpoint import UnreadableError, unpack
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import FORMAT, name_of, numbers
from traceml.sidecar.refusal import RefusedError
from traceml.sidecar.replay import replay
from traceml.sidecar.shapes import Moment, check
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import FrameScan

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
    refused: int = 0  # entries that no sidecar would have written
    problems: list[str] = field(default_factory=list)

    def refuse(self, entry: pb.Entry) -> None:
        """Count an entry that can't be taken as damaged."""
        self.refused += 1
        self.damaged_bytes += entry.ByteSize()

    def give_up(self, reason: str) -> None:
        """Say that nothing more is read, and why."""
        self.problems.append(f"not all of it was read: {reason}")


def recover(folder: Path | Folder, run: RunIdentity | None) -> Recovered:
    """Read a run's journal; `run` is what it is if nothing in there can say so."""
    recovered = Recovered()
    try:
        with opened(folder) as journal:
            _read(journal, recovered, run)
    except FileNotFoundError:
        pass
    except OSError as error:
        recovered.problems.append(f"its folder is not readable: {error.strerror}")
    if recovered.collector is None and run is not None:
        recovered.collector = Collector(run)
    return recovered


def _read(journal: Folder, recovered: Recovered, run: RunIdentity | None) -> None:
    first = read_checkpoint(journal, recovered)
    if recovered.collector is None and run is not None:
        recovered.collector = Collector(run)
    stop_at = time.monotonic() + limits.REPLAY_SECONDS
    for entry in entries_from(journal, first, recovered):
        if recovered.collector is None:
            continue
        if time.monotonic() > stop_at:
            recovered.give_up(f"reading it took more than {limits.REPLAY_SECONDS:.0f} s")
            return
        if not replay(recovered.collector, entry):
            recovered.refuse(entry)
            continue
        recovered.entries += 1
        recovered.until = max(recovered.until, entry.at)


def read_checkpoint(journal: Folder, recovered: Recovered) -> int:
    """Take the newest that can be read; returns its number, 0 if there is none."""
    for number in reversed(numbers(journal, "checkpoint")):
        try:
            data = read_in(journal, name_of(number, "checkpoint"), limits.CHECKPOINT_BYTES)
            state = unpack(data)
            check(Moment, state["at"], "its time")
            recovered.collector = Collector.load(state["collector"])
            recovered.until = state["at"]
        except OSError as error:
            recovered.problems.append(f"checkpoint {number} is not readable: {error.strerror}")
        except (UnreadableError, RefusedError, LookupError, TypeError, ValueError) as error:
            recovered.problems.append(f"checkpoint {number} is {error!s:.150}")
        else:
            return number
    return 0


def entries_from(journal: Folder, first: int, recovered: Recovered) -> Iterator[pb.Entry]:
    """What the segments from that number on tell, as far as they can be read."""
    room = limits.JOURNAL_BYTES
    for number in numbers(journal, "segment"):
        if number < first:
            continue
        if room < 0:
            most = f"{limits.JOURNAL_BYTES // 2**30} GiB"
            recovered.give_up(f"what lies before segment {number} is {most} already")
            return
        refused = recovered.refused
        room -= yield from _entries_of(journal, number, recovered)
        refused = recovered.refused - refused
        if refused:
            recovered.problems.append(f"{refused} entries of segment {number} are none of ours")


def _entries_of(
    journal: Folder, number: int, recovered: Recovered
) -> Generator[pb.Entry, None, int]:
    """What a segment tells; returns how many bytes were read."""
    name = f"segment {number}"
    try:
        data = read_in(journal, name_of(number, "segment"), limits.SEGMENT_BYTES)
    except OSError as error:
        recovered.problems.append(f"{name} is not readable: {error.strerror}")
        return 0
    scan = FrameScan(data, max(limits.ENTRY_BYTES, limits.HEAD_BYTES))
    for payload in scan:
        if payload.startswith(_ANY_FORMAT):
            if payload != FORMAT:
                recovered.damaged_bytes += len(data)
                recovered.problems.append(f"{name} is of another format")
                return len(data)
        elif payload.startswith(b"{"):
            recovered.collector = recovered.collector or _collector_of(payload)
        else:
            try:
                yield pb.Entry.FromString(payload)
            except DecodeError:
                recovered.damaged_bytes += len(payload)
    recovered.damaged_bytes += scan.damaged_bytes
    recovered.torn_bytes += scan.torn_bytes
    if scan.damaged_bytes:
        recovered.problems.append(f"{scan.damaged_bytes} bytes of {name} are damaged")
    return len(data)


def _collector_of(payload: bytes) -> Collector | None:
    """A new one for the run that the head of a segment tells of."""
    try:
        return Collector(RunIdentity.of(parse_json(payload, limits.HEAD_VALUES)))
    except (ValueError, LookupError, TypeError):
        return None

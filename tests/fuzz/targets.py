"""What is done with an input; whatever it is, nothing is raised, and what is shown can be read."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from tests.builders import STARTED_AT, Clock, golden_collector
from tests.fuzz import mutators, seeds
from tests.fuzz.packing import closed, parts_of
from traceml.files import Folder
from traceml.report.compare.comparison import compare
from traceml.report.compare.reading import read_side
from traceml.report.compare.text import comparison_text
from traceml.report.reading import UnreadableError, parsed, read_summary
from traceml.report.rows import write_csv
from traceml.report.summary import summarized
from traceml.report.typed import plain
from traceml.report.writing import rendered
from traceml.sidecar.journal import FORMAT, path_of
from traceml.sidecar.rebuild import rebuild
from traceml.sidecar.replay import replay
from traceml.sidecar.retained import Retained, retained_rows
from traceml.wire.frames import framed, read_frames
from traceml.wire.left import left

FORMS = ("text", "markdown", "html", "json")
MEMORY = Path("/dev/shm")
_HEAD = json.dumps({
    "name": "fuzz", "id": "0", "command": ["x"], "started_at": STARTED_AT, "ranks_expected": None,
}).encode()  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """One reader: what it is given, how that is changed, and what it begins with."""

    read: Callable[[bytes], None]
    mutate: Callable[[bytes, Random], bytes]
    seeds: Callable[[], Iterator[bytes]]


def read_bytes(data: bytes) -> None:
    """Frames out of any bytes."""
    frames = read_frames(data)
    read = len(framed(frames.payloads))
    assert read + frames.damaged_bytes + frames.torn_bytes == len(data)


def read_journal(data: bytes) -> None:
    """A run out of any entries."""
    with _folder() as run:
        _write_segment(run, parts_of(data))
        _read_run(run)


def read_checkpoint(data: bytes) -> None:
    """A run out of any checkpoint, that goes on after it."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    with _folder() as run:
        _write_segment(run, _later_entries())
        path_of(run / "journal", 1, "checkpoint").write_bytes(closed(document))
        _read_run(run)


def read_document(data: bytes) -> None:
    """A summary out of any text, in all forms."""
    with _folder() as run:
        file = run / "final_summary.json"
        file.write_bytes(data)
        try:
            summary = read_summary(file)
        except UnreadableError:
            return
        for form in FORMS:
            rendered(summary, form)


def read_compared(data: bytes) -> None:
    """A comparison with any summary."""
    with _folder() as run:
        (run / "base.json").write_bytes(next(seeds.summaries()))
        (run / "final_summary.json").write_bytes(data)
        try:
            sides = [read_side(run / name) for name in ("base.json", "final_summary.json")]
        except UnreadableError:
            return
        for base, candidate in (sides, sides[::-1]):
            comparison_text(compare([base], candidate))


def read_left(data: bytes) -> None:
    """What a rank left in any file."""
    with _folder() as run:
        (run / "socket.x.left").write_bytes(data)
        collector = golden_collector(Clock())
        for _, entries in left(f"unix://{run}/socket", 0.0):
            for entry in entries:
                entry.at = STARTED_AT
                replay(collector, entry)
        collector.snapshot()


TARGETS = {
    "frames": Target(read_bytes, mutators.mutate_bytes, seeds.files),
    "journal": Target(read_journal, mutators.mutate_entries, seeds.journals),
    "checkpoint": Target(read_checkpoint, mutators.mutate_document, seeds.checkpoints),
    "summary": Target(read_document, mutators.mutate_document, seeds.summaries),
    "compare": Target(read_compared, mutators.mutate_document, seeds.summaries),
    "left": Target(read_left, mutators.mutate_bytes, seeds.files),
}


def _read_run(run: Path) -> None:
    with Folder.at(run) as folder:
        snapshot = rebuild(folder)
    rows = retained_rows(run / "journal", Retained())
    with (run / "out").open("w") as out:
        write_csv(rows, out)
    if snapshot is None:
        return
    summary = summarized(snapshot)
    rendered(summary, "text")
    document = json.loads(json.dumps(plain(summary), allow_nan=False))
    parsed(document, run)  # from where on it is the target `summary`


@cache
def _later_entries() -> tuple[bytes, ...]:
    return tuple(seeds.entries(2, 2)[1:])


def _write_segment(run: Path, entries: Sequence[bytes]) -> None:
    (run / "journal").mkdir()
    path_of(run / "journal", 1, "segment").write_bytes(framed([FORMAT, _HEAD, *entries]))


@contextmanager
def _folder() -> Iterator[Path]:
    """An empty folder for one input."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)

"""A run's last Snapshot, made by somebody else than its sidecar: from what its folder holds."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from traceml.files import Folder, limits, opened, parse_json, read_in
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.config import Config, Ending
from traceml.sidecar.journal import Journal, is_written
from traceml.sidecar.notes import ENDED_EARLY, NOTHING_SEEN
from traceml.sidecar.recovery import FOLDER, Recovered, recover
from traceml.sidecar.replay import replay
from traceml.snapshot import Coverage, Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.left import left

RESUME_SECONDS = 3600.0  # a run that was left longer ago is another one
ANNOUNCEMENT = "sidecar.json"  # in the folder of a run: where its sidecar is, or was


def conclude(config: Config, ending: Ending) -> Snapshot:
    """End a run whose sidecar is dead: what it would have done, as far as the journal goes."""
    folder = config.directory / FOLDER
    recovered = recover(folder, config.run)
    collector = recovered.collector
    assert collector is not None
    for problem in recovered.problems:
        collector.note(f"The journal could not be read whole: {problem}")
    _take_left(recovered, config.endpoint)
    ended = pb.Ended(state=ending.state, exit_code=ending.exit_code)
    now = max(time.time(), recovered.until)  # the system's clock may have been set back
    collector.apply(pb.Entry(at=now, ended=ended))
    journal = Journal(folder, config.journal_max_bytes, collector.run)
    journal.begin(pack(capture({"at": now, "collector": collector.save()})))
    return collector.snapshot()


def rebuild(directory: Folder) -> Snapshot | None:
    """The run in this folder, running, finished or crashed; None if nothing tells of it.

    The folder may be anybody's, so figures that nothing can be computed of are as good as none.
    """
    try:
        with np.errstate(all="ignore"):
            return _rebuilt(directory)
    except OSError:
        raise
    except Exception:
        return None


def _rebuilt(directory: Folder) -> Snapshot | None:
    with directory.inside(FOLDER) as journal:
        is_live = is_written(journal)
        recovered = recover(journal, run=None)
    collector = recovered.collector
    if collector is None:
        return None
    if not is_live:
        if directory.is_own:  # what a stranger's names elsewhere is nothing to us
            with suppress(OSError):  # no descriptor to read it by
                _take_left(recovered, _endpoint(directory))
        collector.clock = lambda: recovered.until
    is_whole = collector.has_ended and not recovered.damaged_bytes and not recovered.torn_bytes
    if not collector.has_ended and not is_live:
        collector.apply(pb.Entry(at=recovered.until, ended=pb.Ended(state="interrupted")))
    coverage = _coverage(recovered, is_whole)
    snapshot = replace(collector.snapshot(), coverage=coverage)
    if coverage.whole:
        return snapshot
    # That nothing was seen proves nothing where something is missing.
    notes = [note for note in snapshot.notes if note not in (NOTHING_SEEN, ENDED_EARLY)]
    return replace(snapshot, notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A run whose sidecar is gone while nobody has ended it."""

    directory: Path
    endpoint: str  # where its ranks still look for a sidecar; empty if that is gone too
    steps: int


def unfinished(directory: Path) -> Unfinished | None:
    """The run in this folder, if a sidecar that is started now should go on with it."""
    folder = directory / FOLDER
    if is_written(folder):
        return None
    recovered = recover(folder, run=None)
    collector = recovered.collector
    is_recent = time.time() - recovered.until <= RESUME_SECONDS
    if collector is None or not collector.is_unfinished or not is_recent:
        return None
    with opened(directory) as run:
        endpoint = _endpoint(run)
    if not Path(endpoint.removeprefix("unix://")).parent.is_dir():
        endpoint = ""
    return Unfinished(directory, endpoint, collector.snapshot().steps.completed)


def _coverage(recovered: Recovered, is_whole: bool) -> Coverage:
    return Coverage(
        until=recovered.until,
        whole=is_whole and not recovered.problems,
        unread_bytes=recovered.damaged_bytes + recovered.torn_bytes,
        problems=tuple(recovered.problems),
    )


def _take_left(recovered: Recovered, endpoint: str) -> None:
    """Take what ranks have left, as if it had been told when they left it."""
    collector = recovered.collector
    assert collector is not None
    for file, entries in left(endpoint, collector.run.started_at):
        with suppress(FileNotFoundError):  # somebody else took it meanwhile
            recovered.until = max(recovered.until, file.lstat().st_mtime)
        for entry in entries:
            entry.at = recovered.until
            replay(collector, entry)


def _endpoint(directory: Folder) -> str:
    """Where the run's ranks may have left something; as good as nowhere if nobody says."""
    try:
        data = read_in(directory, ANNOUNCEMENT, limits.ANNOUNCEMENT_BYTES)
        announced = parse_json(data, limits.ANNOUNCEMENT_VALUES)["endpoint"]
        return announced if isinstance(announced, str) else ""
    except (OSError, ValueError, LookupError, TypeError):
        return ""

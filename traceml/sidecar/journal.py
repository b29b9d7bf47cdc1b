"""The journal: what was told, on disk before it is acknowledged.

A folder of numbered segments of framed entries, each of which says whose it is.
Each begins with a checkpoint of the same number: the state after everything before
it. So the newest checkpoint and the segments from it on are the run, older segments
are history, and the oldest of these go when the folder would pass its limit.
"""

import errno
import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from traceml.files import Folder, append_to, create, is_part, open_in, opened, write_in
from traceml.sidecar.config import RunIdentity
from traceml.wire.frames import framed

FORMAT = b"traceml journal 1"
MIN_MAX_MB = 8

_SEGMENT_BYTES = 4 * 2**20  # 65 000 records: what a restart has to read at the most
_LOCK = "lock"


class Journal:
    """The writing end. It never raises: `problem` says why nothing can be written."""

    def __init__(self, folder: Path, max_bytes: int, run: RunIdentity) -> None:
        self.folder = folder
        self._head = framed([FORMAT, json.dumps(asdict(run)).encode()])
        self.problem = ""
        self.group_bytes = max_bytes // 8  # what may be appended at once
        self._max_bytes = max_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, max_bytes // 8)
        self._lock = _locked(folder)
        if self._lock is not None:
            _drop_parts(folder)
        self._number = max([*numbers(folder, "checkpoint"), *numbers(folder, "segment")], default=0)
        self._file = -1
        self._written = 0  # into the open segment
        self._others = 0  # bytes in all other files
        self._is_dirty = False
        self._has_gap = False  # something told is missing: only a checkpoint can make it whole

    @property
    def wants_checkpoint(self) -> bool:
        """Whether to `begin` a new segment before anything else is appended."""
        return self._file < 0 or self._has_gap or self._written >= self._segment_bytes

    def begin(self, checkpoint: bytes) -> bool:
        """Start a new segment with the state so far; False if that can't be done now."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with opened(self.folder) as folder:
                return self._begin(folder, checkpoint)
        except OSError as error:
            return self._fail(error)

    def _begin(self, folder: Folder, checkpoint: bytes) -> bool:
        self._make_room(folder, len(checkpoint) + self._segment_bytes + self.group_bytes)
        file = self._new_segment(folder, checkpoint)
        self.sync()
        self.close()
        self._file, self._written, self._has_gap = file, 0, True
        _drop_checkpoints(folder)
        self._others = folder.size()
        self._has_gap, self.problem = False, ""
        return self._append(self._head)

    def append(self, entries: Sequence[bytes]) -> bool:
        """Write entries to the system's cache, where the sidecar's own death can't reach them."""
        return not self._has_gap and self._file >= 0 and self._append(framed(entries))

    def sync(self) -> None:
        """Have the system bring to disk what was appended since the last time."""
        if not self._is_dirty:
            return
        self._is_dirty = False
        try:
            os.fsync(self._file)
        except OSError as error:
            self._has_gap = True
            self._fail(error)

    def close(self) -> None:
        """Write no more."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _new_segment(self, folder: Folder, checkpoint: bytes) -> int:
        """An empty segment and its checkpoint: both, or neither.

        A checkpoint alone would hide what is still appended to the segment before it.
        """
        self._number += 1
        segment = name_of(self._number, "segment")
        file = create(folder, segment)
        try:
            write_in(folder, name_of(self._number, "checkpoint"), checkpoint, 0o600, durable=True)
        except OSError:
            os.close(file)
            with suppress(OSError):
                folder.remove(segment)
            raise
        return file

    def _append(self, data: bytes) -> bool:
        try:
            if self._others + self._written + len(data) > self._max_bytes:
                raise OSError(errno.ENOSPC, "the journal's limit is reached")
            _write_all(self._file, data)
        except OSError as error:
            with suppress(OSError):  # a torn entry is told by its checksum as well
                os.ftruncate(self._file, self._written)
            self._has_gap = True
            return self._fail(error)
        self._written += len(data)
        self._is_dirty = True
        return True

    def _fail(self, error: OSError) -> bool:
        self.problem = error.strerror or str(error)
        return False

    def _make_room(self, folder: Folder, wanted: int) -> None:
        """Drop history, but keep all since the newest checkpoint, should the next be damaged."""
        kept = max(numbers(folder, "checkpoint"), default=0)
        for number in numbers(folder, "segment"):
            if number >= kept or folder.size() + wanted <= self._max_bytes:
                return
            folder.remove(name_of(number, "segment"))


def _drop_checkpoints(folder: Folder) -> None:
    """All but the two newest have served."""
    for number in numbers(folder, "checkpoint")[:-2]:
        with suppress(OSError):
            folder.remove(name_of(number, "checkpoint"))


def _drop_parts(folder: Path) -> None:
    """Nobody else writes here, so what is not whole never will be."""
    with suppress(OSError), opened(folder) as held:
        for name in filter(is_part, held.names()):
            held.remove(name)


def name_of(number: int, kind: str) -> str:
    """The name of a segment or checkpoint."""
    return f"{number:08}.{kind}"


def path_of(folder: Path, number: int, kind: str) -> Path:
    """The file of a segment or checkpoint."""
    return folder / name_of(number, kind)


def numbers(folder: Path | Folder, kind: str) -> list[int]:
    """Which segments or checkpoints there are, oldest first; none where there is no folder."""
    try:
        with opened(folder) as held:
            parted = (name.split(".", 1) for name in held.names())
            stems = [stem for stem, *rest in parted if rest == [kind]]
    except OSError:
        if isinstance(folder, Folder):
            raise
        return []
    found = (stem for stem in stems if stem.isascii() and stem.isdecimal())
    return sorted(int(stem) for stem in found if stem == f"{int(stem):08}")


def is_written(folder: Path | Folder) -> bool:
    """Whether a live sidecar writes this journal."""
    try:
        with opened(folder) as held, open_in(held, _LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _locked(folder: Path) -> int | None:
    """Hold the journal for as long as this process lives; an OSError if another does."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with opened(folder) as held:
            file = append_to(held, _LOCK, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(f"another sidecar serves the run in {folder.parent}") from None
    except OSError:  # a disk that takes no lock may still take a journal
        return None
    return file


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]

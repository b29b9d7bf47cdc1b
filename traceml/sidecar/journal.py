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
            self._make_room(len(checkpoint) + self._segment_bytes + self.group_bytes)
            file = self._new_segment(checkpoint)
        except OSError as error:
            return self._fail(error)
        self.sync()
        self.close()
        self._file, self._written, self._has_gap = file, 0, False
        self._drop_checkpoints()
        self._others = _size(self.folder)
        self.problem = ""
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

    def _new_segment(self, checkpoint: bytes) -> int:
        """An empty segment and its checkpoint: both, or neither.

        A checkpoint alone would hide what is still appended to the segment before it.
        """
        self._number += 1
        segment = path_of(self.folder, self._number, "segment")
        file = os.open(segment, _APPEND, 0o600)
        try:
            _write_durably(path_of(self.folder, self._number, "checkpoint"), checkpoint)
        except OSError:
            os.close(file)
            with suppress(OSError):
                segment.unlink()
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

    def _make_room(self, wanted: int) -> None:
        """Drop history, but keep all since the newest checkpoint, should the next be damaged."""
        kept = max(numbers(self.folder, "checkpoint"), default=0)
        for number in numbers(self.folder, "segment"):
            if number >= kept or _size(self.folder) + wanted <= self._max_bytes:
                return
            path_of(self.folder, number, "segment").unlink()

    def _drop_checkpoints(self) -> None:
        """All but the two newest have served."""
        for number in numbers(self.folder, "checkpoint")[:-2]:
            with suppress(OSError):
                path_of(self.folder, number, "checkpoint").unlink()


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def path_of(folder: Path, number: int, kind: str) -> Path:
    """The file of a segment or checkpoint."""
    return folder / f"{number:08}.{kind}"


def numbers(folder: Path, kind: str) -> list[int]:
    """Which segments or checkpoints there are, oldest first."""
    return sorted(int(file.stem) for file in folder.glob(f"*.{kind}") if file.stem.isdecimal())


def is_written(folder: Path) -> bool:
    """Whether a live sidecar writes this journal."""
    try:
        with (folder / _LOCK).open("rb") as file:
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
        file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(f"another sidecar serves the run in {folder.parent}") from None
    except OSError:  # a disk that takes no lock may still take a journal
        return None
    return file


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def _write_durably(path: Path, data: bytes) -> None:
    """Put a whole file there, or none."""
    part = path.with_suffix(".part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]

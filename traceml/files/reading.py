"""Reading files whose writer is not trusted: regular ones only, and not without end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from traceml.files.folder import Folder, checked

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a pipe must not hold us


class NotRegularError(OSError):
    """A pipe, a device, a socket or a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EINVAL, "it is no regular file", str(path))


class TooLargeError(OSError):
    """More than any file of its kind."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {limit // 2**20} MiB", str(path))


def read_in(folder: Folder, name: str, limit: int) -> bytes:
    """What a file in the folder holds, up to so many bytes; an OSError if that can't be had."""
    with open_in(folder, name) as file:
        return _read(file, folder.path / name, limit)


def read_named(path: Path, limit: int) -> bytes:
    """The same of a file that the user names: links on the way to it are his own wish."""
    with _regular(os.open(path, _READ), path) as file:
        return _read(file, path, limit)


def open_in(folder: Folder, name: str) -> BinaryIO:
    """A regular file in the folder, to be read; never through a link."""
    try:
        found = os.open(checked(name), _READ | os.O_NOFOLLOW, dir_fd=folder.descriptor)
    except OSError:
        folder.refuse_link(name)
        raise
    return _regular(found, folder.path / name)


def _regular(descriptor: int, path: Path) -> BinaryIO:
    """The file, unless it is none: then it is closed again."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularError(path)
    return os.fdopen(descriptor, "rb")


def _read(file: BinaryIO, path: Path, limit: int) -> bytes:
    """All of it. It may grow meanwhile, so what was read is what counts."""
    if os.fstat(file.fileno()).st_size > limit:
        raise TooLargeError(path, limit)
    data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError(path, limit)
    return data

"""Writing files so that no reader ever sees half of one, and that no link is written through.

A file is made under a name that nobody can guess and that nothing stands under, and then
takes the name it is for: a link or a second name that stood there is replaced, not followed.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from traceml.files.folder import Folder, checked
from traceml.files.reading import NotRegularError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PART = ".part"


def write_atomically(path: Path, text: str, mode: int | None = None) -> None:
    """Replace `path` by `text` in one go; with a `mode`, whatever the umask says."""
    with Folder.at(path.parent) as folder:
        write_in(folder, path.name, encoded(text), mode)


def encoded(text: str) -> bytes:
    """Text as it goes into a file; what is no Unicode does not cost the rest."""
    return text.encode("utf-8", "backslashreplace")


def write_in(
    folder: Folder, name: str, data: bytes, mode: int | None = None, *, durable: bool = False
) -> None:
    """Replace a file in the folder by `data`; `durable`: it is on disk when this returns."""
    with replacing(folder, name, mode) as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        folder.sync()


@contextmanager
def replacing(folder: Folder, name: str, mode: int | None = None) -> Iterator[BinaryIO]:
    """A new file, which takes the name when it is whole."""
    part = f".{secrets.token_hex(8)}{_PART}"
    descriptor = os.open(part, _NEW, 0o666 if mode is None else mode, dir_fd=folder.descriptor)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
        held = folder.descriptor
        os.replace(part, checked(name), src_dir_fd=held, dst_dir_fd=held)
    except BaseException:
        with suppress(OSError):  # no half of it stays on a full disk
            folder.remove(part)
        raise


def is_part(name: str) -> bool:
    """Whether it is of a writer that died before its file was whole."""
    return name.startswith(".") and name.endswith(_PART)


def create(folder: Folder, name: str, mode: int = 0o600) -> int:
    """A new file to append to, by its descriptor; FileExistsError if anything has that name."""
    return os.open(checked(name), _NEW | os.O_APPEND, mode, dir_fd=folder.descriptor)


def append_to(folder: Folder, name: str, mode: int = 0o666) -> int:
    """The same of one that may be there, unless it is a link, has a second name, or is no file."""
    descriptor = os.open(checked(name), _APPEND, mode, dir_fd=folder.descriptor)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise NotRegularError(folder.path / name)
    return descriptor

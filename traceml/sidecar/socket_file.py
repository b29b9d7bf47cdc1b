"""The file of a unix socket: the folder it lies in, and whether it is still the one we made."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path


def path_of(endpoint: str) -> Path | None:
    """Where the endpoint's socket lies; None if it is not a unix socket."""
    path = endpoint.removeprefix("unix://")
    return Path(path) if path != endpoint else None


def identity(path: Path) -> tuple[int, int] | None:
    """Which socket lies there, as long as it is open; None if none does."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def make_folder(folder: Path) -> None:
    """Make a folder that was removed again, for this user alone.

    OSError if it can't be, or if somebody else made it where everybody may make folders.
    """
    if not folder.parent.exists():
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    everybody_s = folder.parent.stat().st_mode & stat.S_IWOTH
    if everybody_s and folder.lstat().st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{folder} belongs to another user")


def is_served(path: Path) -> bool:
    """Whether someone answers there; gRPC itself would take the socket over without a word."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # so many wait there already
            return True
        except OSError:
            return False
    return True

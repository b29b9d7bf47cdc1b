"""What a rank could not deliver, left in a file beside the sidecar's socket.

Whoever can open the socket can use its folder, so no other place need be agreed on.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from traceml.files import Folder, is_shortage, limits, open_in, write_in
from traceml.wire.frames import FrameScan, framed
from traceml.wire.telemetry_pb2 import Entry

_UNIX = "unix://"
_SUFFIX = ".left"
_OF_RANKS = ("hello", "push", "goodbye")  # what a rank can have to say


def leave(endpoint: str, session: str, entries: Iterable[Entry]) -> None:
    """Put the last words of a process where its sidecar will look for them."""
    socket = _socket(endpoint)
    if socket is None:
        return
    data = framed(entry.SerializeToString() for entry in entries)
    with Folder.at(socket.parent) as folder:
        write_in(folder, f"{socket.name}.{session}{_SUFFIX}", data, 0o600)


def was_served(endpoint: str) -> bool:
    """Whether a sidecar has ever listened there: one that is killed leaves its socket."""
    socket = _socket(endpoint)
    return socket is not None and socket.is_socket()


def left(endpoint: str, since: float) -> Iterator[tuple[Path, Iterable[Entry]]]:
    """What this user's processes have left at this endpoint since that time.

    An OSError means that no descriptor is left to read it by: it is still there.
    """
    socket = _socket(endpoint)
    if socket is None:
        return
    for name, data in _found(socket, since):
        frames = FrameScan(data, limits.ENTRY_BYTES)
        yield socket.parent / name, (each for of in frames for each in _entry(of))


def _socket(endpoint: str) -> Path | None:
    return Path(endpoint.removeprefix(_UNIX)) if endpoint.startswith(_UNIX) else None


def _found(socket: Path, since: float) -> Iterator[tuple[str, bytes]]:
    """What lies beside the socket, by name."""
    with _unreadable_is_absent(), Folder.at(socket.parent) as folder:
        for name in folder.names():
            if name.startswith(f"{socket.name}.") and name.endswith(_SUFFIX):
                data = _read_own(folder, name, since)
                if data is not None:
                    yield name, data


def _read_own(folder: Folder, name: str, since: float) -> bytes | None:
    """Its bytes, unless it is another user's or older; the folder may be everybody's."""
    with _unreadable_is_absent(), open_in(folder, name) as file:
        found = os.fstat(file.fileno())
        if found.st_uid == os.geteuid() and found.st_mtime >= since:
            return file.read(limits.LEFT_BYTES)
    return None


@contextmanager
def _unreadable_is_absent() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_shortage(error):
            raise


def _entry(payload: bytes) -> Iterator[Entry]:
    with suppress(DecodeError):
        entry = Entry.FromString(payload)
        if entry.WhichOneof("what") in _OF_RANKS:
            yield entry

"""What a rank could not deliver, left in a file beside the sidecar's socket.

Whoever can open the socket can use its folder, so no other place need be agreed on.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from glob import escape
from pathlib import Path

from google.protobuf.message import DecodeError

from traceml.wire.frames import framed, read_frames
from traceml.wire.telemetry_pb2 import Entry

_UNIX = "unix://"
_SUFFIX = ".left"


def leave(endpoint: str, session: str, entries: Iterable[Entry]) -> None:
    """Put the last words of a process where its sidecar will look for them."""
    socket = _socket(endpoint)
    if socket is None:
        return
    file = Path(f"{socket}.{session}{_SUFFIX}")
    part = file.with_suffix(".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(framed(entry.SerializeToString() for entry in entries))
    part.replace(file)


def was_served(endpoint: str) -> bool:
    """Whether a sidecar has ever listened there: one that is killed leaves its socket."""
    socket = _socket(endpoint)
    return socket is not None and socket.is_socket()


def left(endpoint: str, since: float) -> Iterator[tuple[Path, list[Entry]]]:
    """What this user's processes have left at this endpoint since that time."""
    socket = _socket(endpoint)
    if socket is None:
        return
    for file in sorted(socket.parent.glob(f"{escape(socket.name)}.*{_SUFFIX}")):
        data = _read_own(file, since)
        if data is not None:
            yield (
                file,
                [entry for payload in read_frames(data).payloads for entry in _entry(payload)],
            )


def _socket(endpoint: str) -> Path | None:
    return Path(endpoint.removeprefix(_UNIX)) if endpoint.startswith(_UNIX) else None


def _read_own(file: Path, since: float) -> bytes | None:
    """Its bytes, unless it is another user's or older; the folder may be everybody's."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(opened.fileno())
            if (
                stat.S_ISREG(found.st_mode)
                and found.st_uid == os.geteuid()
                and found.st_mtime >= since
            ):
                return opened.read()
    return None


def _entry(payload: bytes) -> Iterator[Entry]:
    with suppress(DecodeError):
        yield Entry.FromString(payload)

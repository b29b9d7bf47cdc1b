"""Handing a port over: a sidecar that only lingers frees it for the next run of the same user.

It listens at a socket in a folder that only its user can enter. To connect there is to ask;
nothing is said, and nobody who merely holds the port is ever spoken to.
"""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from traceml.files import Folder

_ASK_SECONDS = 0.5


def ask(port: int) -> bool:
    """Whether a sidecar of this user's that only lingers there has been asked to end."""
    try:
        with _folder() as folder, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ASK_SECONDS)
            connection.connect(_address(folder, port))
            return True
    except OSError:
        return False


@asynccontextmanager
async def offered(port: int, make_way: Callable[[], None]) -> AsyncIterator[None]:
    """Meanwhile `make_way` is called if somebody asks; where nobody can ask, nobody does."""

    def asked(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        make_way()

    try:
        listener = _listener(port)
    except OSError:
        yield
        return
    async with await asyncio.start_unix_server(asked, sock=listener):
        yield
    with suppress(OSError), _folder() as folder:
        folder.remove(_name(port))


def _listener(port: int) -> socket.socket:
    with _folder() as folder:
        with suppress(FileNotFoundError):
            folder.remove(_name(port))  # of one that was killed: the port is ours now
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(_address(folder, port))
        except OSError:
            listener.close()
            raise
        return listener


def _folder() -> Folder:
    """The folder of this user; OSError if it can't be had, or others could enter it."""
    with Folder.at(Path(tempfile.gettempdir())) as shared:
        return shared.private(f"traceml-of-{os.geteuid()}")


def _address(folder: Folder, port: int) -> str:
    """Where the socket is: in the folder that was opened, and short, as such addresses must be."""
    return f"/proc/self/fd/{folder.descriptor}/{_name(port)}"


def _name(port: int) -> str:
    return f"{port}.sock"

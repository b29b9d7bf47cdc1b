"""A socket in somebody else's process, where its descriptor may be closed or reused at any time.

Daemonising code closes every descriptor it finds, and what the script opens next gets the same
numbers. So each use is preceded by a look at whether the descriptor is still ours, and only
`send` and `recv` are used, which fail on anything that is no socket.
"""

import errno
import fcntl
import os
import select
import socket
from stat import S_IFMT
from typing import Any

_FIRST_DESCRIPTOR = 3  # those below are the script's, even while they are closed
_CHUNK_BYTES = 2**16
_IN_PROGRESS = (0, errno.EINPROGRESS)


class Connection:
    """A connection, made and used without blocking. OSError once it is lost."""

    def __init__(self, family: int, address: Any) -> None:
        self._socket = _open(family)
        self._identity: tuple[int, int, int] | None = None
        try:
            self._identity = _identity(self._socket.fileno())
            self._connect(family, address)
        except OSError:
            self.close()
            raise

    def send(self, data: bytes | bytearray) -> int:
        """How much of it was taken."""
        self._check()
        try:
            # The script may have given SIGPIPE its deadly meaning back.
            return self._socket.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0

    def receive(self) -> bytes:
        """What has come; empty if nothing has."""
        self._check()
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "closed by the other side")
        return data

    def wait(self, seconds: float, is_sending: bool) -> None:
        """Sleep until there is something to receive, or room for what is to be sent."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
        poll.poll(seconds * 1000)

    def close(self) -> None:
        """Let go of it, in this process only; what has become somebody else's stays open."""
        if self._is_ours():
            self._socket.close()
        else:
            self._socket.detach()

    def _connect(self, family: int, address: Any) -> None:
        if family != socket.AF_UNIX:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        error = self._socket.connect_ex(address)
        if error not in _IN_PROGRESS:
            raise OSError(error, os.strerror(error))

    def _check(self) -> None:
        if not self._is_ours():
            raise OSError(errno.EBADF, "the training has closed it")

    def _is_ours(self) -> bool:
        try:
            return _identity(self._socket.fileno()) == self._identity
        except OSError:
            return False


def _open(family: int) -> socket.SocketType:
    """A socket of the system's: what the script may have put in place of `socket.socket` is not."""
    opened = socket.SocketType(family, socket.SOCK_STREAM)
    if opened.fileno() < _FIRST_DESCRIPTOR:
        low = opened
        number = fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)
        opened = socket.SocketType(family, socket.SOCK_STREAM, 0, number)
        low.close()
    opened.setblocking(False)
    return opened


def _identity(descriptor: int) -> tuple[int, int, int]:
    """What no other open file has at the same time."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, S_IFMT(found.st_mode)

"""Calls to the sidecar, one at a time, over a connection that is made anew when it is lost.

This is gRPC without its library: that has threads and descriptors of its own, and a script
which closes the latter is aborted, or has its own files read and closed in their place.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from traceml.rank.connection import Connection
from traceml.rank.http2 import (
    DEADLINE_EXCEEDED,
    LOST,
    UNAVAILABLE,
    Headers,
    Layer,
    Link,
    Outcome,
    Plain,
)
from traceml.rank.lookup import Address, Lookup, host_and_port, is_tcp
from traceml.wire import TLS_CA_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_KEY, authorization

if TYPE_CHECKING:
    from ssl import SSLContext


@dataclass(frozen=True, slots=True)
class _Call:
    headers: Headers
    message: bytes
    deadline: float


class Channel:
    """Unary calls to one endpoint. Nothing here blocks, and whatever goes wrong is an outcome."""

    def __init__(self, endpoint: str, token: str = "", tls: "SSLContext | None" = None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._headers = _headers(endpoint, token, tls is not None)
        self._lookup: Lookup | None = None
        self._addresses: list[Address] = []  # that are still to be tried
        self._link: Link | None = None
        self._call: _Call | None = None
        self._is_begun = False  # the call, on this link

    def start(self, path: str, message: bytes, seconds: float) -> None:
        """Have this call made, by the next `advance`; the one before must be over."""
        timeout = b"%dm" % (seconds * 1000)
        headers = ((b":path", path.encode()), *self._headers, (b"grpc-timeout", timeout))
        self._call = _Call(headers, message, monotonic() + seconds)
        self._is_begun = False

    def advance(self) -> Outcome | None:
        """Get on with the call; how it ended, if it has."""
        if self._call is None:
            return None
        outcome = self._advance(self._call)
        if outcome is not None:
            self._call = None
        return outcome

    def wait(self, seconds: float) -> None:
        """Sleep until there is something to do for the call."""
        if self._link is not None and self._is_begun:
            self._link.wait(seconds)
        elif self._lookup is not None:
            self._lookup.wait(seconds)

    def close(self) -> None:
        """Let go of the connection, in this process only."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _advance(self, call: _Call) -> Outcome | None:
        if monotonic() > call.deadline:  # whoever is this late is given up with the call
            self.close()
            return Outcome(DEADLINE_EXCEEDED)
        try:
            if not self._is_begun:
                self._begin(call)
            return self._link.advance() if self._link is not None else None
        except LOST:
            return self._on_loss()

    def _begin(self, call: _Call) -> None:
        """Put the call on the link there is, or on a new one."""
        if self._link is not None:
            try:
                self._link.request(call.headers, call.message)
            except LOST:  # since the last call
                self.close()
        if self._link is None and self._find():
            self._link = self._connect(*self._addresses.pop(0))
            self._link.request(call.headers, call.message)
        self._is_begun = self._link is not None

    def _find(self) -> bool:
        """Whether there is an address to try. OSError if there will be none."""
        if not self._addresses:
            self._lookup = self._lookup or Lookup(self._endpoint)
            if not self._lookup.wait(0):
                return False
            self._addresses, self._lookup = self._lookup.found(), None
        if not self._addresses:
            raise OSError(f"{self._endpoint} has no address")
        return True

    def _connect(self, family: int, address: object) -> Link:
        layer: Layer = Plain()
        if self._tls is not None:
            from traceml.rank.tls import Tls

            layer = Tls(self._tls, host_and_port(self._endpoint)[0])
        return Link(Connection(family, address), layer)

    def _on_loss(self) -> Outcome | None:
        if self._link is not None and self._link.is_established:
            self._addresses.clear()  # what is there next may be elsewhere
        self.close()
        self._is_begun = False
        return None if self._addresses else Outcome(UNAVAILABLE)


def open_channel(endpoint: str) -> Channel:
    """A channel to the sidecar, with what the environment says is to be shown there."""
    if not is_tcp(endpoint):
        return Channel(endpoint)
    token_file = os.environ.get(TOKEN_FILE_VARIABLE)
    token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""
    if not os.environ.get(TLS_CA_VARIABLE):
        return Channel(endpoint, token)
    from traceml.rank.tls import client_context

    return Channel(endpoint, token, client_context())


def _headers(endpoint: str, token: str, is_secret: bool) -> Headers:
    """What all calls have in common."""
    target = endpoint.removeprefix("tcp://") if is_tcp(endpoint) else "localhost"
    common = (
        (b":method", b"POST"),
        (b":scheme", b"https" if is_secret else b"http"),
        (b":authority", target.encode()),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
    return (*common, (TOKEN_KEY.encode(), authorization(token).encode())) if token else common

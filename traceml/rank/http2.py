"""gRPC's unary calls over one HTTP/2 connection, one at a time, without blocking."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import H2Error

from traceml.rank.connection import Connection

# Of gRPC's status codes, those that mean something here.
OK = 0
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
FAILED_PRECONDITION = 9
INTERNAL = 13
UNAVAILABLE = 14

MAX_REPLY_BYTES = 16 * 2**20
_PREFIX_BYTES = 5  # before each message: whether it is compressed, and its length
_READS = 16  # at a time: nobody is kept from a fork for longer

THREAD_NAME = "traceml-sender"  # whose thread makes the calls

Headers = Sequence[tuple[bytes, bytes]]

LOST = (OSError, H2Error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended."""

    status: int
    reply: bytes = b""


class Layer(Protocol):
    """What lies between HTTP/2 and its connection."""

    def seal(self, data: bytes) -> bytes:
        """What is to be sent now so that the other side reads `data`, or can later."""

    def unseal(self, data: bytes) -> bytes:
        """What the other side has written, by these bytes of its."""


class Plain:
    """Nothing in between."""

    def seal(self, data: bytes) -> bytes:
        """These bytes."""
        return data

    def unseal(self, data: bytes) -> bytes:
        """These bytes."""
        return data


class _Protocol(H2Connection):
    MAX_CLOSED_STREAMS = 16  # to remember; with one call at a time that is plenty


class Link:
    """A connection on which calls follow each other. Raises one of `LOST` once it is."""

    def __init__(self, connection: Connection, layer: Layer) -> None:
        self._connection = connection
        self._layer = layer
        self._protocol = _Protocol(H2Configuration(client_side=True, header_encoding=None))
        self._protocol.initiate_connection()
        self._out = bytearray()
        self._stream = 0
        self._unsent = memoryview(b"")
        self._reply = bytearray()
        self._unacknowledged = 0  # bytes of it
        self._status = UNAVAILABLE
        self._is_over = True
        self._is_ending = False  # the other side takes no more calls
        self.is_established = False  # the other side has said something

    def request(self, headers: Headers, message: bytes) -> None:
        """Begin a call, once the one before is over."""
        for _ in range(_READS):  # what came since then, the connection's end for one
            if not self._receive():
                break
        self._check()
        self._stream = self._protocol.get_next_available_stream_id()
        self._protocol.send_headers(self._stream, headers)
        self._unsent = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        self._reply.clear()
        self._status = UNAVAILABLE
        self._is_over = False

    def advance(self) -> Outcome | None:
        """Send and receive what can be, now; how the call ended, if it has."""
        self._send()
        for _ in range(_READS):
            if self._is_over or not self._receive():
                break
        if not self._is_over:
            return None
        if self._unsent:  # it was refused unread, and the rest is for nobody
            self._connection.close()
        return self._outcome()

    def wait(self, seconds: float) -> None:
        """Sleep until there is something to do."""
        self._connection.wait(seconds, is_sending=bool(self._out))

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _send(self) -> None:
        self._send_message()
        self._out += self._layer.seal(self._protocol.data_to_send())
        while self._out and (taken := self._connection.send(self._out)):
            del self._out[:taken]

    def _send_message(self) -> None:
        while self._unsent:
            room = self._protocol.local_flow_control_window(self._stream)
            size = min(room, self._protocol.max_outbound_frame_size, len(self._unsent))
            if size <= 0:
                return
            part, self._unsent = self._unsent[:size], self._unsent[size:]
            self._protocol.send_data(self._stream, bytes(part), end_stream=not self._unsent)

    def _receive(self) -> bool:
        """Whether anything has come."""
        data = self._connection.receive()
        if not data:
            return False
        self.is_established = True
        for event in self._protocol.receive_data(self._layer.unseal(data)):
            self._on(event)
        if not self._is_ending:
            self._acknowledge()
        if not self._is_over:  # or it can wait for the next call
            self._check()
            self._send()
        return True

    def _acknowledge(self) -> None:
        if self._unacknowledged:
            self._protocol.acknowledge_received_data(self._unacknowledged, self._stream)
            self._unacknowledged = 0

    def _check(self) -> None:
        if self._is_ending:
            raise ConnectionResetError("the other side takes no more calls")

    def _on(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self._is_ending = True
        if getattr(event, "stream_id", None) != self._stream:
            return
        if isinstance(event, events.DataReceived):
            self._on_data(event)
        elif isinstance(event, events.ResponseReceived | events.TrailersReceived):
            self._status = _status(event.headers or (), self._status)
        elif isinstance(event, events.StreamEnded | events.StreamReset):
            self._is_over = True

    def _on_data(self, event: events.DataReceived) -> None:
        self._reply += event.data or b""
        if len(self._reply) > MAX_REPLY_BYTES:
            raise ConnectionAbortedError("too large a reply")
        self._unacknowledged += event.flow_controlled_length or 0

    def _outcome(self) -> Outcome:
        if self._status != OK:
            return Outcome(self._status)
        prefix, reply = self._reply[:_PREFIX_BYTES], self._reply[_PREFIX_BYTES:]
        if prefix != b"\0" + len(reply).to_bytes(4, "big"):
            return Outcome(INTERNAL)
        return Outcome(OK, bytes(reply))


def _is_anothers(_: logging.LogRecord) -> bool:
    return threading.current_thread().name != THREAD_NAME


# It logs all it encodes, a token for one; a training that logs everything must not see ours.
for _name in ("hpack.hpack", "hpack.table"):
    logging.getLogger(_name).addFilter(_is_anothers)


def _status(headers: Sequence[tuple[bytes, bytes]], otherwise: int) -> int:
    for name, value in headers:
        if name == b"grpc-status":
            return int(value[:2]) if value[:2].isdigit() else INTERNAL
    return otherwise

"""Connections to the metrics port: not without end, neither in number nor in time.

Anybody on this machine can open them. One that is idle gives way to a newcomer, so that a
scraper gets through however many others hold; one that asks or is answered has its time.
"""

import asyncio
from enum import Enum, auto
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 100
ACCEPTED_AT_ONCE = 16  # that many more may be open for a moment, until others have given way
LOOK_SECONDS = 1.0


class Stage(Enum):
    """What a connection is doing."""

    IDLE = auto()
    ASKING = auto()
    ANSWERED = auto()


LIMIT_SECONDS = {
    Stage.IDLE: 15.0,  # without a first request; after one uvicorn waits for 5 s
    Stage.ASKING: 5.0,  # scrapers send a request in one piece
    Stage.ANSWERED: 30.0,  # until the client has taken the last byte
}


class Connection(H11Protocol):
    """uvicorn's, with a place among the others."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there: if they are too many, whoever is idle for longest has to go."""
        super().connection_made(transport)
        self._seen = (Stage.IDLE, self.cycle)
        self._since = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS:
            self._longest_idle().transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take it; whoever goes on with nonsense after the answer has no other."""
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """It is idle from now on."""
        self._since = self.loop.time()
        super().on_response_complete()

    def look(self) -> None:
        """End it, if it has been at the same thing for too long."""
        now = self.loop.time()
        seen = (self.stage, self.cycle)
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since > LIMIT_SECONDS[seen[0]]:
            self.transport.abort()

    @property
    def stage(self) -> Stage:
        """What it is doing."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered or self.transport.get_write_buffer_size():
            return Stage.ANSWERED
        is_between = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        return Stage.IDLE if is_between else Stage.ASKING

    def _longest_idle(self) -> "Connection":
        """This one, if all others are busy."""
        others: Any = self.connections - {self}
        idle = (other for other in others if other.is_displaceable)
        return min(idle, key=lambda other: other._since, default=self)

    @property
    def is_displaceable(self) -> bool:
        """Whether nothing is lost if it ends now."""
        return self.stage is Stage.IDLE and not self.transport.is_closing()

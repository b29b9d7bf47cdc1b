"""The HTTP side of the sidecar: metrics and probes."""

import asyncio
import logging
import socket
import time
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from traceml.files import is_shortage
from traceml.publish.prometheus import Exposition
from traceml.sidecar.connections import ACCEPTED_AT_ONCE, LOOK_SECONDS, Connection
from traceml.sidecar.encoding import accepts_gzip
from traceml.sidecar.hosts import CheckedHost
from traceml.sidecar.linger import Linger

log = logging.getLogger(__name__)

_QUEUED = 1024  # connections that the system holds until they are accepted
_COMPLAINT_SECONDS = 60.0
_PROMETHEUS_HEADER = "x-prometheus-scrape-timeout-seconds"


def app(exposition: Exposition, linger: Linger) -> Starlette:
    """The routes, over whatever Snapshot is shown."""

    async def metrics(request: Request) -> Response:
        if exposition.is_empty:
            return _not_ready()
        agent = request.headers.get("user-agent", "")
        linger.visit(
            f"{_host(request.client)} {agent}",
            _PROMETHEUS_HEADER in request.headers,
            time.monotonic(),
        )
        zipped = accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
        body, content_type = exposition.answer(request.headers.get("accept", ""), zipped)
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        return _not_ready() if exposition.is_empty else PlainTextResponse("ready\n")

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ],
        middleware=[Middleware(CheckedHost)],
    )


def _not_ready() -> Response:
    return PlainTextResponse("not ready\n", status_code=503)


def _host(address: Any) -> str:
    return "" if address is None else str(address[0])


class Server(uvicorn.Server):
    """uvicorn without its own ideas about signals: the sidecar decides when to end."""

    def __init__(self, application: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                application, access_log=False, log_config=None, lifespan="off", ws="none",
                http=Connection, loop="asyncio", timeout_graceful_shutdown=1,
                backlog=ACCEPTED_AT_ONCE,
                log_level=logging.ERROR,  # or whoever asks for nonsense would fill the log
            )
        )  # fmt: skip
        self._looked_at = 0.0
        self._complained_at = -_COMPLAINT_SECONDS

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen so that no part of an answer waits for the scraper to confirm the one before."""
        for listener in sockets or ():  # asyncio does it only for sockets that name their protocol
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await super().startup(sockets)
        for listener in sockets or ():  # asyncio takes one number for this and for ACCEPTED_AT_ONCE
            listener.listen(_QUEUED)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections now and then."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Connection)
                connection.look()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers be taken that are under way, for a moment, and then end all."""
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            connection.transport.abort()
        await asyncio.sleep(0)  # which closes them

    def answer(self, listener: socket.socket) -> None:
        """Serve until `should_exit`.

        For a thread of its own: a scraper waits neither for ranks that report all at once nor
        for a Snapshot that is being made.
        """
        asyncio.run(self._answer(listener))

    async def _answer(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_trouble)
        await self.serve(sockets=[listener])

    def _on_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """asyncio accepts again after a second, but would fill the log with its complaints."""
        if not is_shortage(context.get("exception")):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._complained_at >= _COMPLAINT_SECONDS:
            self._complained_at = time.monotonic()
            log.warning("no descriptor is left for a new connection")

    @contextmanager
    def capture_signals(self) -> Any:
        """Leave all handlers as they are."""
        yield

"""The HTTP side of the sidecar: metrics, probes, and the way a finished run makes room."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from traceml.publish.prometheus import Exposition
from traceml.sidecar.linger import Linger
from traceml.sidecar.listen import YIELD_PATH

_PROMETHEUS_HEADER = "x-prometheus-scrape-timeout-seconds"


def app(exposition: Exposition, linger: Linger, make_way: Callable[[], None]) -> Starlette:
    """The routes, over whatever Snapshot is shown.

    `make_way` is called when another run wants the port and this one only lingers.
    """

    async def metrics(request: Request) -> Response:
        if exposition.is_empty:
            return _not_ready()
        agent = request.headers.get("user-agent", "")
        linger.visit(
            f"{_host(request.client)} {agent}",
            _PROMETHEUS_HEADER in request.headers,
            time.monotonic(),
        )
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        body, content_type = exposition.answer(request.headers.get("accept", ""), zipped)
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        return _not_ready() if exposition.is_empty else PlainTextResponse("ready\n")

    async def yield_port(request: Request) -> Response:
        if not _is_from_here(request):
            return PlainTextResponse("only from this machine\n", status_code=403)
        if not linger.is_on:
            return PlainTextResponse("a run is being served here\n", status_code=409)
        make_way()
        return PlainTextResponse("making way\n", status_code=202)

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route(YIELD_PATH, yield_port, methods=["POST"]),
        ]
    )


def _not_ready() -> Response:
    return PlainTextResponse("not ready\n", status_code=503)


def _host(address: Any) -> str:
    return "" if address is None else str(address[0])


def _is_from_here(request: Request) -> bool:
    client, server = _host(request.client), _host(request.scope.get("server"))
    try:
        return client == server or ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False


class Server(uvicorn.Server):
    """uvicorn without its own ideas about signals: the sidecar decides when to end."""

    def __init__(self, application: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                application, access_log=False, log_config=None, lifespan="off", ws="none",
                http="h11", loop="asyncio", timeout_graceful_shutdown=1,
            )
        )  # fmt: skip

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen so that no part of an answer waits for the scraper to confirm the one before."""
        for listener in sockets or ():  # asyncio does it only for sockets that name their protocol
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await super().startup(sockets)

    def answer(self, listener: socket.socket) -> None:
        """Serve until `should_exit`.

        For a thread of its own: a scraper waits neither for ranks that report all at once nor
        for a Snapshot that is being made.
        """
        asyncio.run(self.serve(sockets=[listener]))

    @contextmanager
    def capture_signals(self) -> Any:
        """Leave all handlers as they are."""
        yield

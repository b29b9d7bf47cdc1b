"""The HTTP side of the sidecar: metrics and probes."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from traceml.publish.prometheus import Exposition
from traceml.snapshot import Snapshot


def app(latest: Callable[[], Snapshot | None]) -> Starlette:
    """The routes, over whatever Snapshot is the latest."""
    exposition = Exposition()

    async def metrics(request: Request) -> Response:
        snapshot = latest()
        if snapshot is None:
            return _not_ready()
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        body, content_type = exposition.render(snapshot, request.headers.get("accept", ""), zipped)
        headers = {"content-type": content_type, "vary": "accept, accept-encoding"}
        if zipped:
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def readyz(_: Request) -> Response:
        return _not_ready() if latest() is None else PlainTextResponse("ready\n")

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ]
    )


def _not_ready() -> Response:
    return PlainTextResponse("not ready\n", status_code=503)


class Server(uvicorn.Server):
    """uvicorn without its own ideas about signals: the sidecar decides when to end."""

    def __init__(self, application: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                application, access_log=False, log_config=None, lifespan="off", ws="none",
                http="h11", loop="asyncio", timeout_graceful_shutdown=1,
            )
        )  # fmt: skip

    @contextmanager
    def capture_signals(self) -> Any:
        """Leave all handlers as they are."""
        yield

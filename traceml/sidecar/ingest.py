"""The gRPC border: requests in, collector's answers out, errors counted and never fatal."""

import logging
import socket
from typing import Any

import grpc

from traceml.sidecar.collector import Collector, ProtocolTooNewError, UnknownSessionError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.service import handlers

log = logging.getLogger(__name__)


class Ingest:
    """Answers ranks. Any error here costs one request, not the sidecar."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloReply:
        """Open a session."""
        return await self._answer(self._collector.hello, request, context)  # type: ignore[no-any-return]

    async def push(self, request: pb.PushRequest, context: Any) -> pb.PushReply:
        """Take records and a heartbeat."""
        return await self._answer(self._collector.push, request, context)  # type: ignore[no-any-return]

    async def goodbye(self, request: pb.GoodbyeRequest, context: Any) -> pb.GoodbyeReply:
        """Close a session."""
        return await self._answer(self._collector.goodbye, request, context)  # type: ignore[no-any-return]

    async def _answer(self, method: Any, request: Any, context: Any) -> Any:
        try:
            return method(request)
        except ProtocolTooNewError as refusal:
            log.warning("refused: %s", refusal)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        except UnknownSessionError as unknown:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(unknown))
        except Exception:
            self._collector.failed_requests += 1
            log.exception("a request failed")
            await context.abort(grpc.StatusCode.INTERNAL, "the sidecar could not take this")


async def start_ingest(collector: Collector, endpoint: str) -> Any:
    """Serve the collector at `endpoint`, such as unix:///tmp/x/sidecar.sock."""
    if _is_served(endpoint):
        raise OSError(f"cannot listen at {endpoint}: another sidecar does")
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(Ingest(collector)),))
    try:
        server.add_insecure_port(endpoint)
    except RuntimeError:
        raise OSError(f"cannot listen at {endpoint}") from None
    await server.start()
    return server


def _is_served(endpoint: str) -> bool:
    """Whether someone answers there; gRPC itself would take the socket over without a word."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(endpoint.removeprefix("unix://"))
        except OSError:
            return False
    return True

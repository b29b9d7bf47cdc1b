"""The gRPC border: requests in, answers out, refusals counted, errors never fatal."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from traceml.report.flat import flat
from traceml.report.summary import summary
from traceml.sidecar import transport
from traceml.sidecar.access import Access
from traceml.sidecar.checking import check
from traceml.sidecar.collector import Collector
from traceml.sidecar.handlers import handlers
from traceml.sidecar.ledger import Ledger
from traceml.sidecar.refusal import INTERNAL, UNREAD, BusyError, MalformedError, RefusedError
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.service import SERVICE, request_of

log = logging.getLogger(__name__)


class Ingest:
    """Answers ranks. Any error here costs one request, not the sidecar."""

    def __init__(
        self, ledger: Ledger, collector: Collector, access: Access, picture: Callable[[], Snapshot]
    ) -> None:
        self._ledger = ledger
        self._collector = collector
        self._picture = picture  # makes one of the run as it is
        self._refused = collector.refused
        self._access = access
        self._read: set[asyncio.Task[Any]] = set()  # calls whose request has come whole

    def new_server(self) -> Any:
        """A gRPC server that has these answers, and no address yet."""
        server = grpc.aio.server(
            interceptors=[_Border(self._access, self._refused, self._settle)],
            options=transport.options(),
            maximum_concurrent_rpcs=transport.MAX_CALLS,
        )
        server.add_generic_rpc_handlers((handlers(self._answer),))
        return server

    async def _answer(self, method: str, data: bytes, context: Any) -> Message:
        """Have the request taken; what it says is on disk when this returns."""
        task = asyncio.current_task()
        if task is not None:
            self._read.add(task)
        try:
            if method == "Report":
                return self._report(data)
            if not self._ledger.has_room(len(data)):
                raise BusyError
            reply = await self._ledger.tell(_entry(method, data))
            assert reply is not None
            return reply
        except RefusedError as refusal:
            self._refused[refusal.reason] += 1
            await _abort(context, refusal.status, str(refusal))
        except Exception:
            self._refused[INTERNAL] += 1
            log.exception("a request failed")
            await _abort(context, "INTERNAL", "the sidecar could not take this")

    def _report(self, data: bytes) -> Message:
        """What is to be said of the run by now; asked for by a script, and not written down."""
        request = _request("Report", data)
        check(request)
        self._collector.check_session(request.session)
        snapshot = self._picture()
        told = flat(snapshot) if request.flat else summary(snapshot)
        return pb.ReportReply(json=json.dumps(told).encode())

    def _settle(self, task: "asyncio.Task[Any]") -> None:
        """A call is over: if its request never came, gRPC has refused it."""
        if task in self._read:
            self._read.discard(task)
        else:
            self._refused[UNREAD] += 1


class _Border(grpc.aio.ServerInterceptor):
    """Sees a call before its request is read: who may not call is not listened to.

    What never arrives is counted as well.
    """

    def __init__(
        self,
        access: Access,
        refused: Counter[str],
        settle: Callable[["asyncio.Task[Any]"], None],
    ) -> None:
        self._access = access
        self._refused = refused
        self._settle = settle

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Let the call through if it may, and look at it again when it is over."""
        try:
            self._access.check(details.invocation_metadata)
        except RefusedError as refusal:
            self._refused[refusal.reason] += 1
            return _refusing(refusal)
        task = asyncio.current_task()
        if task is not None and details.method.startswith(f"/{SERVICE}/"):
            task.add_done_callback(self._settle)
        return await continuation(details)


def _refusing(refusal: RefusedError) -> Any:
    """A handler that never asks for the request: one of a stream, which is read in parts."""

    async def refuse(_: Any, context: Any) -> NoReturn:
        await _abort(context, refusal.status, str(refusal))

    return grpc.stream_unary_rpc_method_handler(refuse)


def _entry(method: str, data: bytes) -> pb.Entry:
    return pb.Entry(**{method.lower(): _request(method, data)})


def _request(method: str, data: bytes) -> Any:
    try:
        return request_of(method, data)
    except DecodeError:
        raise MalformedError("this is no message of ours") from None


async def _abort(context: Any, status: str, details: str) -> NoReturn:
    await context.abort(grpc.StatusCode[status], details)
    raise AssertionError("unreachable: abort raises")

"""The gRPC border: requests in, answers out, refusals counted, errors never fatal."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from traceml.report.flat import flat
from traceml.report.summary import summary
from traceml.sidecar.access import Access
from traceml.sidecar.collector import Collector
from traceml.sidecar.ledger import Ledger
from traceml.sidecar.refusal import INTERNAL, UNREAD, BusyError, MalformedError, RefusedError
from traceml.snapshot import Snapshot
from traceml.wire import MAX_MESSAGE_BYTES
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.service import SERVICE, handlers, request_of

MAX_CONCURRENT_CALLS = 4096

_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", 16 * 2**10),
    ("grpc.so_reuseport", 0),  # or a second sidecar would share the port without a word
]

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
        self._server = grpc.aio.server(
            interceptors=[_Watch(self._settle)],
            options=_OPTIONS,
            maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS,
        )
        self._server.add_generic_rpc_handlers((handlers(self._answer),))

    def bind(self, endpoint: str) -> str:
        """Take this address; returns where it can be reached. OSError if it can't be had."""
        address = endpoint.removeprefix("tcp://")
        is_tcp = address != endpoint
        if not is_tcp and _is_served(endpoint):
            raise OSError(f"cannot listen at {endpoint}: another sidecar does")
        credentials = self._access.credentials()
        mask = os.umask(0o077)  # the socket is for this user alone
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError:  # it knows the reason and keeps it to itself
            raise OSError(f"cannot listen at {endpoint}{_reason(address)}") from None
        finally:
            os.umask(mask)
        return f"tcp://{address.rsplit(':', 1)[0]}:{port}" if is_tcp else endpoint

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()

    async def stop(self) -> None:
        """Answer no more."""
        await self._server.stop(grace=None)

    async def _answer(self, method: str, data: bytes, context: Any) -> Message:
        """Have the request taken; what it says is on disk when this returns."""
        task = asyncio.current_task()
        if task is not None:
            self._read.add(task)
        try:
            self._access.check(context.invocation_metadata())
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


class _Watch(grpc.aio.ServerInterceptor):
    """Sees a call before its request is read: what never arrives is counted as well."""

    def __init__(self, settle: Callable[["asyncio.Task[Any]"], None]) -> None:
        self._settle = settle

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """Let the call through, and look at it again when it is over."""
        task = asyncio.current_task()
        if task is not None and details.method.startswith(f"/{SERVICE}/"):
            task.add_done_callback(self._settle)
        return await continuation(details)


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


def _reason(address: str) -> str:
    """Why nobody can listen there, as far as trying it again tells."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if address.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.bind(address.removeprefix("unix://"))
            return ""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, int(port)), family=family).close()
    except OSError as error:
        return f": {error.strerror or error}"
    return ": its certificate or key can't be used"


def _is_served(endpoint: str) -> bool:
    """Whether someone answers there; gRPC itself would take the socket over without a word."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(endpoint.removeprefix("unix://"))
        except OSError:
            return False
    return True

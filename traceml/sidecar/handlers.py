"""The server's side of the Telemetry service, as gRPC wants to have it."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from traceml.wire.service import METHODS, SERVICE

Answer = Callable[[str, bytes, Any], Awaitable[Message]]


def handlers(answer: Answer) -> Any:
    """The server side of the service, for `grpc.aio.Server.add_generic_rpc_handlers`.

    Requests come as bytes, so that what is no message is still ours to count.
    """

    def handler(method: str) -> Any:
        async def handle(data: bytes, context: Any) -> Message:
            return await answer(method, data, context)

        return grpc.unary_unary_rpc_method_handler(
            handle, response_serializer=lambda reply: reply.SerializeToString()
        )

    return grpc.method_handlers_generic_handler(
        SERVICE, {method: handler(method) for method in METHODS}
    )

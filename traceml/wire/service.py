"""The Telemetry service for both ends: client calls and server handlers.

Written by hand, because generated stubs refuse any grpcio older than the
compiler that made them, and the training process brings its own grpcio.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from traceml.wire import telemetry_pb2 as pb

SERVICE = "traceml.v1.Telemetry"

_METHODS: dict[str, tuple[Any, Any]] = {
    "Hello": (pb.HelloRequest, pb.HelloReply),
    "Push": (pb.PushRequest, pb.PushReply),
    "Goodbye": (pb.GoodbyeRequest, pb.GoodbyeReply),
    "Report": (pb.ReportRequest, pb.ReportReply),
}


Answer = Callable[[str, bytes, Any], Awaitable[Message]]


class Client:
    """The calls a rank makes, each a `grpc.UnaryUnaryMultiCallable`."""

    def __init__(self, channel: Any) -> None:
        self.hello, self.push, self.goodbye, self.report = (
            channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            for method, (request, reply) in _METHODS.items()
        )


def request_of(method: str, data: bytes) -> Any:
    """The request that was sent to `method`; DecodeError if these bytes are none."""
    return _METHODS[method][0].FromString(data)


def handlers(answer: Answer) -> Any:
    """The server side of the service, for `grpc.aio.Server.add_generic_rpc_handlers`.

    Requests come as bytes, so that what is no message is still ours to count.
    """
    import grpc

    def handler(method: str) -> Any:
        async def handle(data: bytes, context: Any) -> Message:
            return await answer(method, data, context)

        return grpc.unary_unary_rpc_method_handler(
            handle, response_serializer=lambda reply: reply.SerializeToString()
        )

    return grpc.method_handlers_generic_handler(
        SERVICE, {method: handler(method) for method in _METHODS}
    )

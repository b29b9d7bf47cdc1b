"""The Telemetry service for both ends: client calls and server handlers.

Written by hand, because generated stubs refuse any grpcio older than the
compiler that made them, and the training process brings its own grpcio.
"""

from typing import Any, Protocol

from traceml.wire import telemetry_pb2 as pb

SERVICE = "traceml.v1.Telemetry"

_METHODS: dict[str, tuple[Any, Any]] = {
    "Hello": (pb.HelloRequest, pb.HelloReply),
    "Push": (pb.PushRequest, pb.PushReply),
    "Goodbye": (pb.GoodbyeRequest, pb.GoodbyeReply),
}


class Telemetry(Protocol):
    """What a sidecar answers."""

    async def hello(self, request: pb.HelloRequest, context: Any) -> pb.HelloReply:
        """Open a session."""

    async def push(self, request: pb.PushRequest, context: Any) -> pb.PushReply:
        """Take records and a heartbeat."""

    async def goodbye(self, request: pb.GoodbyeRequest, context: Any) -> pb.GoodbyeReply:
        """Close a session."""


class Client:
    """The calls a rank makes, each a `grpc.UnaryUnaryMultiCallable`."""

    def __init__(self, channel: Any) -> None:
        self.hello, self.push, self.goodbye = (
            channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            for method, (request, reply) in _METHODS.items()
        )


def handlers(telemetry: Telemetry) -> Any:
    """The server side of the service, for `grpc.aio.Server.add_generic_rpc_handlers`."""
    import grpc

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            method: grpc.unary_unary_rpc_method_handler(
                getattr(telemetry, method.lower()),
                request_deserializer=request.FromString,
                response_serializer=reply.SerializeToString,
            )
            for method, (request, reply) in _METHODS.items()
        },
    )

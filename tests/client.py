"""Whoever speaks to a sidecar in gRPC's own way, unlike ranks: an independent client."""

from typing import Any

import grpc

from traceml.wire import service

_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100)]


def channel_to(endpoint: str) -> grpc.Channel:
    """A channel without TLS; it does not connect yet."""
    return grpc.insecure_channel(endpoint.removeprefix("tcp://"), options=_OPTIONS)


class Client:
    """The calls a rank makes, each a `grpc.UnaryUnaryMultiCallable`."""

    def __init__(self, channel: Any) -> None:
        self.hello, self.push, self.goodbye, self.report = (
            channel.unary_unary(
                service.path_of(method),
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            for method, (request, reply) in service.METHODS.items()
        )

"""The Telemetry service, for both ends: its methods, and what each is sent and answers.

Written by hand, because generated stubs refuse any grpcio older than the
compiler that made them, and ranks do without grpcio.
"""

from typing import Any

from traceml.wire import telemetry_pb2 as pb

SERVICE = "traceml.v1.Telemetry"

METHODS: dict[str, tuple[Any, Any]] = {  # the request, and the reply
    "Hello": (pb.HelloRequest, pb.HelloReply),
    "Push": (pb.PushRequest, pb.PushReply),
    "Goodbye": (pb.GoodbyeRequest, pb.GoodbyeReply),
    "Report": (pb.ReportRequest, pb.ReportReply),
}


def path_of(method: str) -> str:
    """Where a call of `method` goes."""
    return f"/{SERVICE}/{method}"


def request_of(method: str, data: bytes) -> Any:
    """The request that was sent to `method`; DecodeError if these bytes are none."""
    return METHODS[method][0].FromString(data)


def reply_of(method: str, data: bytes) -> Any:
    """What `method` was answered; DecodeError if these bytes are no answer."""
    return METHODS[method][1].FromString(data)

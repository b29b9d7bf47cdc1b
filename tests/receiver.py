"""An OTLP backend that keeps what it is sent, and that can be made to fail."""

import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc

from traceml.sidecar.listen import bind


@dataclass
class Received:
    """Requests in the order of their arrival, and what came with them."""

    metrics: list[Any] = field(default_factory=list)
    traces: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def metric_names(self) -> set[str]:
        return {metric.name for request in self.metrics for metric in metrics_of(request)}

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces
            for of_resource in request.resource_spans
            for scope in of_resource.scope_spans
            for span in scope.spans
        ]


def metrics_of(request: Any) -> list[Any]:
    return [
        metric
        for of_resource in request.resource_metrics
        for scope in of_resource.scope_metrics
        for metric in scope.metrics
    ]


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a resource, a data point or a span."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in thing.attributes
    }


def free_port() -> int:
    with bind("127.0.0.1", 0) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def grpc_receiver(
    port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> Iterator[tuple[Received, int]]:
    """Over gRPC, on that port."""
    received = Received()

    class Metrics(metrics_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            received.headers.append(dict(context.invocation_metadata()))
            received.metrics.append(request)
            return metrics_pb2.ExportMetricsServiceResponse()

    class Traces(trace_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
            received.traces.append(request)
            return trace_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)  # type: ignore[no-untyped-call]
    trace_grpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
    address = f"127.0.0.1:{port}"
    bound = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    server.start()
    try:
        yield received, bound
    finally:
        server.stop(None).wait()


@contextmanager
def http_receiver(
    status: int = 200, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[Received, int]]:
    """Over HTTP; any other status than 200 refuses all."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            if status == 200 and self.path == "/v1/metrics":
                received.metrics.append(metrics_pb2.ExportMetricsServiceRequest.FromString(body))
            elif status == 200 and self.path == "/v1/traces":
                received.traces.append(trace_pb2.ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing to say."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received, server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

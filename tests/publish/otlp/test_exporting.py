"""What is sent, over what, and what becomes of it where it does not arrive."""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.builders import golden_run
from tests.launching import eventually
from tests.receiver import grpc_receiver, http_receiver
from traceml.publish.otlp.exporting import Exporting
from traceml.publish.otlp.settings import for_exporters, read
from traceml.snapshot import Exports, Snapshot

OFTEN = {"OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
NOBODY = "http://127.0.0.1:9"


class Sidecar:
    """Something that has a latest Snapshot."""

    def __init__(self) -> None:
        self.latest: Snapshot | None = golden_run()

    @contextmanager
    def exporting(
        self, monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], since: float = 0.0
    ) -> Iterator[Exporting]:
        seen = for_exporters({**os.environ, **environment}, None)
        for name in set(os.environ) - set(seen):
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        exporting = Exporting(read(environment), "demo", lambda: self.latest, since)
        exporting.start()
        try:
            yield exporting
        finally:
            exporting.finish(10.0)

    def outliers(self, first: int, last: int) -> None:
        """Let the ring hold these steps that stood out."""
        snapshot = golden_run()
        (like,) = snapshot.outliers
        numbers = range(first, last + 1)
        self.latest = replace(
            snapshot, outliers=tuple(replace(like, number=n, step=n) for n in numbers)
        )


def exports(exporting: Exporting) -> Exports:
    told = exporting.told(golden_run()).telemetry.exports
    assert told is not None
    return told


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_over_tls_with_a_certificate_of_its_own(
    protocol: str,
    tmp_path: Path,
    certificates: Callable[..., tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, client = certificates("server"), certificates("client")
    authority = tmp_path / "ca.pem"
    environment = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority),
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": client[0],
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": client[1],
        **OFTEN,
    }
    if protocol == "grpc":
        credentials = grpc.ssl_server_credentials(
            [(Path(server[1]).read_bytes(), Path(server[0]).read_bytes())],
            authority.read_bytes(), require_client_auth=True,
        )  # fmt: skip
        receiver = grpc_receiver(credentials=credentials)
    else:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority))
        context.load_cert_chain(*server)
        context.verify_mode = ssl.CERT_REQUIRED
        receiver = http_receiver(tls=context)
    with receiver as (received, port):
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"https://localhost:{port}"
        with Sidecar().exporting(monkeypatch, environment):
            eventually(lambda: received.metrics and received.traces)


def test_a_signal_can_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with grpc_receiver() as (metrics, grpc_port), http_receiver() as (traces, http_port):
        environment = {
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"http://127.0.0.1:{grpc_port}",
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "tenant=a",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{http_port}/v1/traces",
            **OFTEN,
        }
        with Sidecar().exporting(monkeypatch, environment):
            eventually(lambda: metrics.metrics and traces.traces)
    assert metrics.headers[0]["tenant"] == "a"
    assert not metrics.traces
    assert not traces.metrics


def test_a_step_that_stood_out_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar()
    sidecar.outliers(1, 3)
    with http_receiver() as (received, port):
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        with sidecar.exporting(monkeypatch, {**endpoint, **OFTEN}) as exporting:
            eventually(lambda: len(received.traces) == 3)
            sidecar.outliers(2, 5)
            eventually(lambda: len(received.traces) == 5)
            asked = len(received.metrics)
            eventually(lambda: len(received.metrics) > asked + 3)
        assert len(received.traces) == 5
        assert exports(exporting).sent["traces"] == 5


def test_what_a_sidecar_before_has_told_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar()
    sidecar.outliers(7, 9)
    assert sidecar.latest is not None
    after = sidecar.latest.outliers[-1].ended_at + 1.0
    with http_receiver() as (received, port):
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        with sidecar.exporting(monkeypatch, {**endpoint, **OFTEN}, since=after) as exporting:
            eventually(lambda: len(received.metrics) > 3)
        assert not received.traces
        assert exports(exporting).lost["traces"] == 0


def test_steps_are_kept_while_nobody_listens_and_counted_when_they_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sidecar = Sidecar()
    sidecar.outliers(1, 4)
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, **OFTEN}
    with sidecar.exporting(monkeypatch, environment) as exporting:
        eventually(lambda: exports(exporting).lost["metrics"] > 0)
        assert exports(exporting).lost["traces"] == 0
        sidecar.outliers(3, 6)  # 1 and 2 had to make room
        eventually(lambda: exports(exporting).lost["traces"] == 2)
        assert exports(exporting).sent == {"metrics": 0, "traces": 0}


def test_exemplars_lead_only_to_traces_that_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar()
    snapshot = golden_run()
    with sidecar.exporting(
        monkeypatch, {"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, **OFTEN}
    ) as exporting:
        eventually(lambda: exports(exporting).lost["metrics"] > 0)
        assert exporting.told(snapshot).steps.histogram.exemplars == ()
    with http_receiver() as (received, port):
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        with sidecar.exporting(monkeypatch, {**endpoint, **OFTEN}) as exporting:
            eventually(lambda: exports(exporting).sent["traces"])
            histogram = exporting.told(snapshot).steps.histogram
    (exemplar,) = [each for each in histogram.exemplars if each is not None]
    assert exemplar.trace_id in {span.trace_id.hex() for span in received.spans()}
    bucket = histogram.exemplars.index(exemplar)
    assert (
        histogram.bounds_seconds[bucket - 1] < exemplar.seconds <= histogram.bounds_seconds[bucket]
    )


def test_nothing_is_sent_before_there_is_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = Sidecar()
    sidecar.latest = None
    with http_receiver() as (received, port):
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        with sidecar.exporting(monkeypatch, {**endpoint, **OFTEN}) as exporting:
            pass
        assert not received.headers
        assert exports(exporting) == Exports(
            {"metrics": 0, "traces": 0}, {"metrics": 0, "traces": 0}
        )

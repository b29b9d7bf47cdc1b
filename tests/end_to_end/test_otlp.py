"""A real run sends itself through OTLP; a backend in trouble troubles nobody."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.launching import SCRIPTS, Launcher, eventually, fetch
from tests.receiver import (
    Received,
    attributes_of,
    free_port,
    grpc_receiver,
    http_receiver,
    metrics_of,
)
from traceml.publish.otlp.traces import STEP_SPAN

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
LOST = 'traceml_otlp_lost_total{run="test",signal="metrics"}'
SENT = 'traceml_otlp_sent_total{run="test",signal="metrics"}'
OFTEN = {"OTEL_METRIC_EXPORT_INTERVAL": "200"}
TRAINING = ("--nproc-per-node=2", str(SCRIPTS / "training.py"), "--", "--pause", "0.01")
PLANTED = ("--slow", "forward", "--slow-rank", "1", "--slow-step", "60", "--delay", "0.5")


def states(received: Received) -> dict[str, float]:
    """The run's state as it was last told."""
    (metric,) = (m for m in metrics_of(received.metrics[-1]) if m.name == "traceml.run.state")
    return {attributes_of(p)["state"]: p.as_double for p in metric.sum.data_points}


def step_spans(received: Received, step: int) -> dict[str, Any]:
    """The root spans of a step, by rank."""
    return {
        attributes_of(span)["rank"]: span
        for span in received.spans()
        if span.name == STEP_SPAN and attributes_of(span)["step"] == step
    }


def test_a_planted_outlier_arrives_as_a_trace_that_names_the_culprit(
    launcher: Launcher, tmp_path: Path
) -> None:
    with grpc_receiver() as (received, port):
        launcher.start(
            "--otlp-endpoint", f"http://127.0.0.1:{port}", *TRAINING, *PLANTED, "--steps", "80",
            "--hold", str(tmp_path),
            environment={**OFTEN, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        )  # fmt: skip
        roots = eventually(lambda: step_spans(received, 60) or None)
        assert set(roots) == {"0", "1"}
        assert {rank: attributes_of(span)["culprit"] for rank, span in roots.items()} == {
            "0": False, "1": True,
        }  # fmt: skip
        slow = roots["1"]
        assert attributes_of(slow)["phase"] == "forward"
        assert attributes_of(slow)["lost_seconds"] == pytest.approx(0.5, rel=0.2)
        (link,) = roots["0"].links
        assert link.trace_id == slow.trace_id
        children = [s for s in received.spans() if s.parent_span_id == slow.span_id]
        marked = {s.name: s for s in children if attributes_of(s)["culprit"]}
        assert set(marked) == {"forward"}
        took = marked["forward"].end_time_unix_nano - marked["forward"].start_time_unix_nano
        assert took / 1e9 == pytest.approx(0.5, rel=0.2)
        assert eventually(lambda: slow.trace_id.hex() in exemplars(launcher))


def exemplars(launcher: Launcher) -> set[str]:
    """The traces that /metrics leads to."""
    text = fetch(launcher.sidecar()["metrics"], OPENMETRICS)
    return {
        sample.exemplar.labels["trace_id"]
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar is not None
    }


def test_the_environment_alone_turns_it_on_and_the_end_of_the_run_arrives(
    launcher: Launcher,
) -> None:
    with http_receiver() as (received, port):
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_RESOURCE_ATTRIBUTES": "team=vision,run=elsewhere",
            "OTEL_SERVICE_NAME": "training",
        }
        finished = launcher.run(*TRAINING, "--steps", "30", environment=environment)
        assert finished.exit_code == 0
        eventually(lambda: received.metrics and states(received)["completed"] == 1.0)
    assert all(headers["authorization"] == "Bearer secret" for headers in received.headers)
    who = attributes_of(received.metrics[-1].resource_metrics[0].resource)
    assert (who["service.name"], who["team"]) == ("training", "vision")
    assert who["service.instance.id"].endswith("/test")
    assert "run" not in who  # every data point says it: twice is once too often for Prometheus


def test_nothing_is_sent_without_an_endpoint(launcher: Launcher) -> None:
    finished = launcher.run(*TRAINING, "--steps", "30")
    assert finished.exit_code == 0
    assert "otlp" not in finished.summary["telemetry"]


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_backend_that_is_not_there_is_counted_and_found_when_it_comes(
    launcher: Launcher, tmp_path: Path, protocol: str
) -> None:
    port = free_port()
    environment = {
        **OFTEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    launcher.start(
        *TRAINING, *PLANTED, "--steps", "80", "--hold", str(tmp_path), environment=environment
    )
    eventually(lambda: launcher.value(LOST))
    assert launcher.value(SENT) == 0
    steps = launcher.completed()
    eventually(lambda: launcher.completed() > steps + 100)
    with grpc_receiver(port) if protocol == "grpc" else http_receiver(port=port) as (received, _):
        eventually(lambda: launcher.value(SENT))
        eventually(lambda: step_spans(received, 60))  # kept until it could be told
        completed = eventually(lambda: "traceml.steps.completed" in received.metric_names())
    assert completed


def test_a_backend_that_refuses_is_counted_and_nothing_else_suffers(
    launcher: Launcher, tmp_path: Path
) -> None:
    with http_receiver(status=403) as (received, port):
        launcher.start(
            "--otlp-endpoint", f"http://127.0.0.1:{port}", *TRAINING, "--hold", str(tmp_path),
            environment=OFTEN,
        )  # fmt: skip
        eventually(lambda: launcher.value(LOST))
        steps = launcher.completed()
        eventually(lambda: launcher.completed() > steps + 50)
        log = (launcher.run_directory / "sidecar.log").read_text()
        assert "metrics do not arrive, and are tried again: " in log
        assert "403" in log
    assert not received.metrics


def test_a_backend_that_never_answers_does_not_hold_the_run(launcher: Launcher) -> None:
    answer = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer.wait()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        finished = launcher.run(
            "--otlp-endpoint", f"http://127.0.0.1:{server.server_address[1]}",
            *TRAINING, "--steps", "60", environment=OFTEN,
        )  # fmt: skip
        assert finished.exit_code == 0  # and nobody has had an answer yet
        assert finished.summary["telemetry"]["otlp"]["sent"] == {"metrics": 0, "traces": 0}
    finally:
        answer.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_settings_that_cannot_be_used_are_said_in_the_summary(launcher: Launcher) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon",
    }
    finished = launcher.run(*TRAINING, "--steps", "30", environment=environment)
    assert finished.exit_code == 0
    assert any("OTEL_EXPORTER_OTLP_PROTOCOL=pigeon" in note for note in finished.summary["notes"])


def test_an_endpoint_that_is_no_url_is_a_clear_error(launcher: Launcher) -> None:
    finished = launcher.run("--otlp-endpoint", "collector:4317", *TRAINING)
    assert finished.exit_code == 2
    assert "--otlp-endpoint: 'collector:4317' must be a URL" in finished.stderr

"""A real OpenTelemetry collector reads what we send, and says what it has read."""

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import golden_run
from tests.conftest import require_program
from tests.launching import eventually
from tests.receiver import free_port
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric
from traceml.publish.otlp import naming
from traceml.publish.otlp.exporting import Exporting
from traceml.publish.otlp.settings import read
from traceml.publish.otlp.traces import STEP_SPAN
from traceml.snapshot import Snapshot

FLUSH_SECONDS = 30.0


@dataclass(frozen=True)
class Collector:
    """Where it listens, and where it writes down all that it gets."""

    endpoints: dict[str, str]  # by protocol
    log: Path

    def metrics(self) -> dict[str, dict[str, str]]:
        """What each metric is, by name."""
        found = {}
        for part in self.log.read_text(encoding="utf-8").split("Descriptor:\n")[1:]:
            facts = dict(re.findall(r"^ {5}-> (\w+): (.*)$", part.split("DataPoints #0")[0], re.M))
            found[facts["Name"]] = facts
        return found

    def spans(self) -> list[dict[str, str]]:
        """What each span is."""
        text = self.log.read_text(encoding="utf-8").split("ResourceMetrics")[0]
        return [
            {
                **dict(re.findall(r"^ {4}(Name|ID|Trace ID) *: (.*)$", part, re.M)),
                **dict(re.findall(r"^ {5}-> (\w+): \w+\((.*)\)$", part, re.M)),
            }
            for part in re.split(r"^Span #\d+\n", text, flags=re.M)[1:]
        ]


@contextmanager
def running(program: str, folder: Path) -> Iterator[Collector]:
    grpc, http = free_port(), free_port()
    log = folder / "collector.log"
    command = [program, "start", "--exporter", "blackhole"]
    command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{http}"]
    command += ["--debug-log", "metrics", "--debug-log", "traces"]
    command += ["--debug-log-verbosity", "detailed"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: "Starting" in log.read_text(encoding="utf-8"))
        endpoints = {
            "grpc": f"http://127.0.0.1:{grpc}",
            "http/protobuf": f"http://127.0.0.1:{http}",
        }
        yield Collector(endpoints, log)
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    agent = Path(sysconfig.get_path("purelib")) / "rotel" / "rotel-agent"
    with running(require_program(str(agent)), tmp_path) as collector:
        yield collector


def send(monkeypatch: pytest.MonkeyPatch, endpoint: str, protocol: str, **more: str) -> Snapshot:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, **more,
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    snapshot = golden_run()
    exporting = Exporting(read(environment), "demo", lambda: snapshot, since=0.0)
    exporting.start()
    exporting.finish(FLUSH_SECONDS)
    sent = exporting.told(snapshot).telemetry.exports
    assert sent is not None
    assert sent.lost == {"metrics": 0, "traces": 0}
    return snapshot


def expected(metric: Metric, deltas: tuple[str, ...] = ()) -> dict[str, str]:
    facts = {
        "Name": naming.name(metric),
        "Unit": naming.unit(metric),
        "DataType": {"gauge": "Gauge", "histogram": "Histogram"}.get(metric.kind, "Sum"),
    }
    if facts["DataType"] == "Sum":
        facts["IsMonotonic"] = str(metric.kind == "counter").lower()
    if facts["DataType"] != "Gauge":
        kind = "DELTA" if metric.kind in deltas else "CUMULATIVE"
        facts["AggregationTemporality"] = f"AGGREGATION_TEMPORALITY_{kind}"
    return facts


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_it_gets_every_metric_with_its_type_unit_and_temporality(
    collector: Collector, protocol: str, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {} if compression == "none" else {"OTEL_EXPORTER_OTLP_COMPRESSION": compression}
    send(monkeypatch, collector.endpoints[protocol], protocol, **more)
    eventually(lambda: len(collector.metrics()) >= len(CATALOGUE))
    got = collector.metrics()
    for metric in CATALOGUE:
        facts = got.pop(naming.name(metric))
        assert facts.pop("Description") == metric.help
        assert facts == expected(metric)
    assert not got


def test_it_gets_deltas_where_they_are_preferred(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    preference = {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}
    send(monkeypatch, collector.endpoints["grpc"], "grpc", **preference)
    eventually(lambda: len(collector.metrics()) >= len(CATALOGUE))
    got = collector.metrics()
    for metric in CATALOGUE:
        told = expected(metric, deltas=("counter", "histogram")).get("AggregationTemporality")
        assert got[naming.name(metric)].get("AggregationTemporality") == told


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_it_gets_the_trace_of_a_step_that_stood_out(
    collector: Collector, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = send(monkeypatch, collector.endpoints[protocol], protocol)
    (outlier,) = snapshot.outliers
    roots = eventually(lambda: [s for s in collector.spans() if s["Name"] == STEP_SPAN])
    assert {root["rank"] for root in roots} == {"0", "1"}
    assert {root["step"] for root in roots} == {str(outlier.step)}

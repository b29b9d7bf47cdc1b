"""What holds of every Snapshot, whatever the ranks have sent: all that is made of it is sound."""

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_open
from prometheus_client.parser import text_string_to_metric_families as parsed_classic

from tests.receiver import metrics_of
from traceml.publish.exposition import Form, Writer
from traceml.publish.otlp.metrics import Metrics
from traceml.publish.otlp.traces import Traces
from traceml.report.flat import flat
from traceml.report.reading import parsed
from traceml.report.schema import FILE
from traceml.report.summary import summarized
from traceml.report.writing import FORMS, rendered
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.collector import Collector
from traceml.snapshot import Snapshot

SCOPE = InstrumentationScope("traceml", "1")


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(FILE.read_text()))


def assert_sound(collector: Collector) -> Snapshot:
    """Make everything that is made of a run, and read it with what others read it with."""
    snapshot = collector.snapshot()
    assert_summary_is_sound(snapshot)
    assert_metrics_are_sound(snapshot)
    assert_otlp_is_sound(snapshot)
    loaded = Collector.load(unpack(pack(capture(collector.save()))))
    loaded.clock = collector.clock
    assert loaded.snapshot().ranks == snapshot.ranks
    return snapshot


def assert_summary_is_sound(snapshot: Snapshot) -> None:
    assert list(validator().iter_errors(assert_readable(snapshot))) == []
    summary = summarized(snapshot)
    for form in FORMS:
        assert rendered(summary, form)
    assert all(math.isfinite(value) for value in flat(snapshot).values())


def assert_readable(snapshot: Snapshot) -> Any:
    """We can read our own summary; returns what its JSON says."""
    document = json.loads(rendered(summarized(snapshot), "json"), parse_constant=refuse)
    assert parsed(document, Path("final_summary.json")).schema_version == 1
    return document


def refuse(constant: str) -> None:
    raise AssertionError(f"the summary holds {constant}")


def assert_metrics_are_sound(snapshot: Snapshot) -> None:
    writer = Writer()
    for form, parse in ((Form.CLASSIC, parsed_classic), (Form.OPENMETRICS, parsed_open)):
        families = list(parse(writer.write(snapshot, form).decode()))
        values = [sample.value for family in families for sample in family.samples]
        assert values
        assert all(math.isfinite(value) for value in values)


def assert_otlp_is_sound(snapshot: Snapshot) -> None:
    message, points = Metrics(Resource({}), SCOPE).of(snapshot)
    assert points
    for metric in metrics_of(encode_metrics(message)):
        data = getattr(metric, metric.WhichOneof("data"))
        for point in data.data_points:
            value = point.sum if hasattr(point, "bucket_counts") else point.as_double
            assert math.isfinite(value), metric.name
    traces = Traces(Resource({}), "demo")
    for outlier in snapshot.outliers:
        encode_spans(traces.of(outlier)[0])

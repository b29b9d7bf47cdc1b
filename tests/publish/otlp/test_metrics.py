from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from tests.builders import Clock, golden_collector, golden_run, make_collector, start_ranks
from tests.builders import timed_records as timed
from tests.receiver import attributes_of, metrics_of
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.otlp import naming
from traceml.publish.otlp.metrics import Metrics
from traceml.snapshot import Snapshot

SCOPE = InstrumentationScope("traceml", "1")
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def sent(metrics: Metrics, snapshot: Snapshot) -> dict[str, Any]:
    """The messages by name, as they are on the wire."""
    message, _ = metrics.of(snapshot)
    return {metric.name: metric for metric in metrics_of(encode_metrics(message))}


def total(metric: Any) -> float:
    return float(sum(point.as_double for point in metric.sum.data_points))


def test_every_value_of_a_snapshot_is_sent_once() -> None:
    snapshot = golden_run()
    message, points = Metrics(Resource({}), SCOPE).of(snapshot)
    by_name = {metric.name: metric for metric in metrics_of(encode_metrics(message))}
    for metric in CATALOGUE:
        samples = dict(metric.samples(snapshot))
        if not samples:
            assert naming.name(metric) not in by_name
            continue
        told = by_name[naming.name(metric)]
        data = getattr(told, told.WhichOneof("data"))
        names = naming.attributes(metric)
        if metric.kind != "histogram":
            found = {
                tuple(attributes_of(point).get(name, "") for name in names): point.as_double
                for point in data.data_points
            }
            assert found == samples
        assert told.unit == naming.unit(metric)
        assert told.description == metric.help
    assert points == sum(len(list(metric.samples(snapshot))) for metric in CATALOGUE)


def test_counters_are_monotonic_and_states_are_not() -> None:
    by_name = sent(Metrics(Resource({}), SCOPE), golden_run())
    assert by_name["traceml.steps.completed"].sum.is_monotonic
    states = by_name["traceml.run.state"].sum
    assert not states.is_monotonic
    assert states.aggregation_temporality == CUMULATIVE


def test_cumulative_values_begin_with_the_run() -> None:
    snapshot = golden_run()
    (point,) = sent(Metrics(Resource({}), SCOPE), snapshot)[
        "traceml.steps.completed"
    ].sum.data_points
    assert point.start_time_unix_nano == round(snapshot.run.started_at * 1e9)
    assert point.time_unix_nano == round(snapshot.now * 1e9)


def test_the_histogram_s_buckets_are_not_cumulated() -> None:
    snapshot = golden_run()
    (point,) = sent(Metrics(Resource({}), SCOPE), snapshot)["traceml.step"].histogram.data_points
    assert tuple(point.bucket_counts) == snapshot.steps.histogram.counts
    assert point.count == sum(snapshot.steps.histogram.counts)
    assert not point.HasField("min")


@pytest.mark.parametrize(
    ("preference", "counters", "histograms"),
    [
        ("cumulative", CUMULATIVE, CUMULATIVE),
        ("delta", DELTA, DELTA),
        ("lowmemory", CUMULATIVE, DELTA),
    ],
)
def test_the_preferred_temporality(preference: str, counters: int, histograms: int) -> None:
    by_name = sent(Metrics(Resource({}), SCOPE, preference), golden_run())
    assert by_name["traceml.steps.completed"].sum.aggregation_temporality == counters
    assert by_name["traceml.step"].histogram.aggregation_temporality == histograms
    assert by_name["traceml.diagnosis"].sum.aggregation_temporality == CUMULATIVE


def test_deltas_add_up_to_the_total_whatever_is_lost_on_the_way() -> None:
    clock = Clock()
    collector = make_collector(clock, ranks_expected=1)
    (rank,) = start_ranks(collector, 1)
    metrics = Metrics(Resource({}), SCOPE, "delta")
    steps, times = 0.0, []
    for turn in range(4):
        clock.advance(1.0)
        rank.send(timed(range(turn * 5, turn * 5 + 5)))
        snapshot = collector.snapshot()
        told = sent(metrics, snapshot)["traceml.steps.completed"]
        if turn != 1:  # that one does not arrive
            steps += total(told)
            (point,) = told.sum.data_points
            times.append((point.start_time_unix_nano, point.time_unix_nano))
            metrics.arrived(snapshot)
    assert steps == 20
    assert [begin for begin, _ in times[1:]] == [end for _, end in times[:-1]]


def test_a_rank_that_comes_back_is_not_counted_twice() -> None:
    clock = Clock()
    collector = golden_collector(clock)
    metrics = Metrics(Resource({}), SCOPE, "delta")
    first = collector.snapshot()
    received = total(sent(metrics, first)["traceml.records.received"])
    metrics.arrived(first)
    clock.advance(3600.0)  # both fall silent, and have no series
    silent = collector.snapshot()
    assert "traceml.records.received" not in sent(metrics, silent)
    metrics.arrived(silent)
    assert received > 0
    assert total(sent(metrics, first)["traceml.records.received"]) == 0

"""A Snapshot as OTLP metrics: cumulative from the run's start, or what came since the last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import (
    Metric as Exported,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric, Value
from traceml.publish.otlp import naming
from traceml.publish.otlp.settings import CUMULATIVE, DELTA
from traceml.snapshot import Snapshot, StepHistogram

_Values: TypeAlias = dict[tuple[str, ...], Value]


class Metrics:
    """Turns Snapshots into messages; knows which was the last that arrived."""

    def __init__(
        self,
        resource: Resource,
        scope: InstrumentationScope,
        preference: str = CUMULATIVE,
        catalogue: Sequence[Metric] = CATALOGUE,
    ) -> None:
        self._catalogue = catalogue
        self._resource = resource
        self._scope = scope
        self._is_delta = {
            "counter": preference == DELTA,
            "histogram": preference != CUMULATIVE,
        }
        self._told_at: float | None = None
        self._told: dict[str, _Values] = {}  # by metric: what is not to be told again

    def of(self, snapshot: Snapshot) -> tuple[MetricsData, int]:
        """The message, and how many data points it holds."""
        exported = [metric for each in self._catalogue if (metric := self._metric(each, snapshot))]
        scoped = ScopeMetrics(self._scope, exported, "")
        points = sum(len(metric.data.data_points) for metric in exported)
        return MetricsData([ResourceMetrics(self._resource, [scoped], "")]), points

    def arrived(self, snapshot: Snapshot) -> None:
        """That one got there: what is told next begins where it ended."""
        self._told_at = snapshot.now
        for metric in self._catalogue:
            if self._is_delta.get(metric.kind, False):
                self._told.setdefault(metric.name, {}).update(metric.samples(snapshot))

    def _metric(self, metric: Metric, snapshot: Snapshot) -> Exported | None:
        values = dict(metric.samples(snapshot))
        if not values:
            return None
        data = self._data(metric, values, snapshot)
        return Exported(naming.name(metric), metric.help, naming.unit(metric), data)

    def _data(self, metric: Metric, values: _Values, snapshot: Snapshot) -> Gauge | Sum | Histogram:
        is_delta = self._is_delta.get(metric.kind, False)
        since = self._told_at if is_delta else None
        times = _ns(snapshot.run.started_at if since is None else since), _ns(snapshot.now)
        told = self._told.get(metric.name, {})
        make = _histogram_point if metric.kind == "histogram" else _point
        points = _points(metric, values, told, times, make)
        if metric.kind == "gauge":
            return Gauge(points)
        temporality = (
            AggregationTemporality.DELTA if is_delta else AggregationTemporality.CUMULATIVE
        )
        if metric.kind == "histogram":
            return Histogram(points, temporality)
        return Sum(points, temporality, is_monotonic=metric.kind == "counter")


def _points(
    metric: Metric,
    values: _Values,
    told: Mapping[tuple[str, ...], Value],
    times: tuple[int, int],
    make: Callable[..., Any],
) -> Sequence[Any]:
    names = naming.attributes(metric)
    return [
        make(_said(names, labels), times, value, told.get(labels))
        for labels, value in values.items()
    ]


def _said(names: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """What has no value is left out, as for Prometheus an empty label is none."""
    return {name: value for name, value in zip(names, labels, strict=True) if value}


def _point(
    attributes: dict[str, str], times: tuple[int, int], value: float, told: float | None
) -> NumberDataPoint:
    before = told if told is not None and told <= value else 0.0  # it began anew
    return NumberDataPoint(attributes, *times, float(value - before))


def _histogram_point(
    attributes: dict[str, str],
    times: tuple[int, int],
    value: StepHistogram,
    told: StepHistogram | None,
) -> HistogramDataPoint:
    counts, total = list(value.counts), value.sum_seconds
    if told is not None:
        counts = [now - then for now, then in zip(counts, told.counts, strict=True)]
        total -= told.sum_seconds
    unknown = cast(float, None)  # the smallest and largest of these; optional on the wire
    return HistogramDataPoint(
        attributes, *times, sum(counts), total, counts, value.bounds_seconds, unknown, unknown,
        [
            Exemplar({}, each.seconds, _ns(each.timestamp), int(each.span_id, 16),
                     int(each.trace_id, 16))
            for each in value.exemplars
            if each is not None
        ],
    )  # fmt: skip


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

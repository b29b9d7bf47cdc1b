"""The catalogue as Prometheus reads it: classic text or OpenMetrics, gzipped on request."""

import gzip
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot, StepHistogram


def families(snapshot: Snapshot) -> Iterator[Family]:
    """Every metric that has a value in this Snapshot."""
    for metric in CATALOGUE:
        family = _family(metric, snapshot)
        if family.samples:
            yield family


def _family(metric: Metric, snapshot: Snapshot) -> Family:
    labels = list(metric.all_labels)
    samples = metric.samples(snapshot)
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=labels, unit=metric.unit)
        for values, value in samples:
            assert isinstance(value, StepHistogram)
            histogram.add_metric(values, _buckets(value), value.sum_seconds)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=labels, unit=metric.unit)
    for values, value in samples:
        assert not isinstance(value, StepHistogram)
        family.add_metric(values, value)
    return family


def _buckets(histogram: StepHistogram) -> list[tuple[str, float]]:
    bounds = (*(repr(bound) for bound in histogram.bounds_seconds), "+Inf")
    return list(zip(bounds, accumulate(histogram.counts), strict=True))


class Exposition:
    """Renders each Snapshot at most once per format, however many scrapers ask."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._rendered: dict[tuple[str, bool], bytes] = {}

    def render(self, snapshot: Snapshot, accept: str, zipped: bool) -> tuple[bytes, str]:
        """The body and its content type for an Accept header."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._rendered.clear()
        encoder, content_type = _encoder(accept)
        body = self._rendered.get((content_type, zipped))
        if body is None:
            body = encoder(_registry(snapshot))
            body = gzip.compress(body, compresslevel=1, mtime=0) if zipped else body
            self._rendered[content_type, zipped] = body
        return body, content_type


def _encoder(accept: str) -> tuple[Any, str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no version: as if nothing were asked
        return choose_encoder("")


class _Once:
    """A prometheus_client collector over one Snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        """What prometheus_client asks for."""
        return families(self._snapshot)


def _registry(snapshot: Snapshot) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(snapshot))
    return registry

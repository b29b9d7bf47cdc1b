"""Somebody else's hand: the catalogue as prometheus_client writes it."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest as write_classic
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.utils import floatToGoString

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot, StepHistogram


def written(snapshot: Snapshot, form: Form, catalogue: Sequence[Metric] = CATALOGUE) -> str:
    """The whole text, without exemplars."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(list(families(snapshot, catalogue))))
    write = write_openmetrics if form is Form.OPENMETRICS else write_classic
    body: bytes = write(registry)
    return body.decode()


def number(value: float) -> str:
    """A number as it writes it."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def families(snapshot: Snapshot, catalogue: Sequence[Metric] = CATALOGUE) -> Iterator[Family]:
    """Every metric that has a value in this Snapshot."""
    for metric in catalogue:
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


class _Once:
    """A collector, as prometheus_client wants one."""

    def __init__(self, collected: list[Family]) -> None:
        self._collected = collected

    def collect(self) -> list[Family]:
        return self._collected

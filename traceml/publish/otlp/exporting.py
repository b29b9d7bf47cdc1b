"""Sends Snapshots through OTLP, on a thread of its own: whatever the backend does stays there."""

import logging
import os
import socket
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.sdk.version import __version__ as sdk_version

from traceml import __version__
from traceml.masking import mask_text
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric
from traceml.publish.otlp import naming
from traceml.publish.otlp.metrics import Metrics
from traceml.publish.otlp.settings import GRPC, METRICS, TRACES, Settings
from traceml.publish.otlp.traces import SCOPE, Traces
from traceml.snapshot import Exemplar, Exports, Outlier, Snapshot

log = logging.getLogger(__name__)

_FIRST_SECONDS = 5.0  # until metrics are sent first: settings that are wrong should show early
_REASON_CHARACTERS = 300
_LOOK_SECONDS = 1.0  # for steps that stood out
_MAX_POINTS = 10_000  # in one request: gRPC takes 4 MiB by default


class Exporting:
    """Sends what there is each interval, keeps nothing but the last picture, counts what is lost.

    Steps that stood out stay in the Snapshot for a while, and so are tried again.
    """

    def __init__(
        self,
        settings: Settings,
        run: str,
        latest: Callable[[], Snapshot | None],
        since: float,
        catalogue: Sequence[Metric] = CATALOGUE,
    ) -> None:
        self._reasons = _reasons()
        resource = _resource(run)
        self._settings = settings
        self._latest = latest
        self._since = since  # unix time: what was before, another sidecar of this run has told
        self._metrics = Metrics(
            resource, InstrumentationScope(SCOPE, __version__), settings.temporality, catalogue
        )
        self._traces = Traces(resource, run)
        self._metric_exporter = _metric_exporter(settings.protocols.get(METRICS))
        self._span_exporter = _span_exporter(settings.protocols.get(TRACES))
        self._sent: Counter[str] = Counter(dict.fromkeys(settings.protocols, 0))
        self._lost: Counter[str] = Counter(dict.fromkeys(settings.protocols, 0))
        self._problems: dict[str, str] = {}  # by signal: why it does not arrive, if so
        self._exemplars: dict[int, Exemplar] = {}  # by bucket of the histogram
        self._last_outlier: int | None = None  # that was sent or lost
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def told(self, snapshot: Snapshot) -> Snapshot:
        """The same picture with what became of those before it."""
        histogram = snapshot.steps.histogram
        found = self._exemplars
        exemplars = tuple(found.get(bucket) for bucket in range(len(histogram.counts)))
        steps = replace(
            snapshot.steps, histogram=replace(histogram, exemplars=exemplars if found else ())
        )
        exports = Exports(sent=dict(self._sent), lost=dict(self._lost))
        notes = [
            f"The {signal} sent through OTLP do not arrive: {problem}"
            for signal, problem in self._problems.items()
            if problem
        ]
        return replace(
            snapshot,
            steps=steps,
            telemetry=replace(snapshot.telemetry, exports=exports),
            notes=(*snapshot.notes, *notes),
        )

    def finish(self, seconds: float) -> None:
        """Send the last picture, if that is possible in so many seconds."""
        self._is_over.set()
        self._thread.join(seconds)
        if self._thread.is_alive() or any(self._problems.values()):
            log.warning("otlp: the run's last values did not arrive")

    def _work(self) -> None:
        due = time.monotonic() + min(_FIRST_SECONDS, self._settings.interval_seconds)
        while not self._is_over.wait(min(_LOOK_SECONDS, self._settings.interval_seconds)):
            self._send_traces()
            if time.monotonic() >= due:
                due = time.monotonic() + self._settings.interval_seconds
                self._send_metrics()
        self._send_traces()
        self._send_metrics()

    def _send_metrics(self) -> None:
        snapshot = self._latest()
        exporter = self._metric_exporter
        if snapshot is None or exporter is None:
            return
        message, points = self._metrics.of(snapshot)
        has_arrived = _is_sent(lambda: exporter.export(message) is MetricExportResult.SUCCESS)
        if has_arrived:
            self._metrics.arrived(snapshot)
        self._count(METRICS, has_arrived, points)

    def _send_traces(self) -> None:
        snapshot = self._latest()
        if snapshot is None or self._span_exporter is None:
            return
        outliers = snapshot.outliers
        if self._last_outlier is None:
            before = (each.number for each in outliers if each.ended_at < self._since)
            self._last_outlier = max(before, default=0)
        new = [outlier for outlier in outliers if outlier.number > self._last_outlier]
        if not new:
            return
        missed = new[0].number - self._last_outlier - 1
        if missed:
            self._lost[TRACES] += missed
            self._last_outlier += missed
        for outlier in new:
            if not self._send_trace(outlier, snapshot):
                return

    def _send_trace(self, outlier: Outlier, snapshot: Snapshot) -> bool:
        exporter = self._span_exporter
        assert exporter is not None
        spans, exemplar = self._traces.of(outlier)
        has_arrived = _is_sent(lambda: exporter.export(spans) is SpanExportResult.SUCCESS)
        self._note(TRACES, has_arrived)
        if has_arrived:
            self._sent[TRACES] += 1
            self._last_outlier = outlier.number
            bucket = bisect_left(snapshot.steps.histogram.bounds_seconds, exemplar.seconds)
            self._exemplars = {**self._exemplars, bucket: exemplar}
        return has_arrived

    def _count(self, signal: str, has_arrived: bool, items: int) -> None:
        (self._sent if has_arrived else self._lost)[signal] += items
        self._note(signal, has_arrived)

    def _note(self, signal: str, has_arrived: bool) -> None:
        """Say it when it changes."""
        before = self._problems.get(signal, "")
        self._problems[signal] = problem = "" if has_arrived else self._reasons.last
        if before and has_arrived:
            log.info("otlp: %s arrive again", signal)
        elif problem and not before:
            log.warning("otlp: %s do not arrive, and are tried again: %s", signal, problem)


class _Reasons(logging.Handler):
    """Listens to OpenTelemetry's exporters, who say why they fail, and say it often."""

    last = "for no reason that is known"

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what tells more than that it was given up."""
        message = record.getMessage()
        if "max retries or shutdown" not in message:
            self.last = mask_text(message)[:_REASON_CHARACTERS]


def _reasons() -> _Reasons:
    reasons = _Reasons()
    theirs = logging.getLogger("opentelemetry")
    theirs.handlers = [reasons]
    theirs.propagate = False
    return reasons


def _is_sent(export: Callable[[], bool]) -> bool:
    """The border to the exporters, of which any error means the same."""
    try:
        return export()
    except Exception:
        log.debug("otlp: export failed", exc_info=True)
        return False


def _metric_exporter(protocol: str | None) -> MetricExporter | None:
    if protocol is None:
        return None
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter(max_export_batch_size=_MAX_POINTS)
    from opentelemetry.exporter.otlp.proto.http import metric_exporter

    return metric_exporter.OTLPMetricExporter(max_export_batch_size=_MAX_POINTS)


def _span_exporter(protocol: str | None) -> SpanExporter | None:
    if protocol is None:
        return None
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    from opentelemetry.exporter.otlp.proto.http import trace_exporter

    return trace_exporter.OTLPSpanExporter()


def _resource(run: str) -> Resource:
    """Who sends; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say more, and beat this.

    What a data point says is not said here too: Prometheus refuses a label given twice.
    """
    host = socket.gethostname()
    own: dict[str, Any] = {
        "service.name": "traceml",
        "service.version": __version__,
        "service.instance.id": f"{host}/{run}",
        "host.name": host,
        "process.pid": os.getpid(),
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": sdk_version,
    }
    given = {**own, **OTELResourceDetector().detect().attributes}
    said = {name for metric in CATALOGUE for name in naming.attributes(metric)}
    return Resource({name: value for name, value in given.items() if name not in said})

"""A step that stood out as OTLP traces: one for each rank, its phases where they were in time."""

from collections.abc import Iterator, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    ReadableSpan,
    Span,
    SpanLimits,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer, format_span_id, format_trace_id, set_span_in_context

from traceml import __version__
from traceml.snapshot import Exemplar, Outlier, PhaseTime, RankStep

STEP_SPAN = "training step"
SCOPE = "traceml"
_MAX_RANKS = 4_096  # of one node


class Traces:
    """Turns steps into spans."""

    def __init__(self, resource: Resource, run: str) -> None:
        self._run = run
        self._ended = _Ended()
        provider = TracerProvider(
            ALWAYS_ON,
            resource,
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_links=_MAX_RANKS),
        )
        provider.add_span_processor(self._ended)
        self._tracer: Tracer = provider.get_tracer(SCOPE, __version__)

    def of(self, outlier: Outlier) -> tuple[Sequence[ReadableSpan], Exemplar]:
        """All spans of a step, and what leads to the one to look at first."""
        roots = {of.rank: self._root(outlier, of) for of in outlier.ranks}
        first = roots[outlier.culprit if outlier.culprit is not None else _longest(outlier)]
        for root in roots.values():
            if root is not first:  # a star: every rank is found from every other
                root.add_link(first.get_span_context())
                first.add_link(root.get_span_context())
        for of in outlier.ranks:
            self._phases(outlier, of, roots[of.rank])
            roots[of.rank].end(_ns(of.ended_at))
        context = first.get_span_context()
        exemplar = Exemplar(
            format_trace_id(context.trace_id), format_span_id(context.span_id),
            outlier.seconds, outlier.ended_at,
        )  # fmt: skip
        return self._ended.take(), exemplar

    def _root(self, outlier: Outlier, of: RankStep) -> Span:
        attributes: dict[str, str | int | float | bool] = {
            "run": self._run,
            "rank": str(of.rank),
            "step": outlier.step,
            "step_seconds": outlier.seconds,
            "typical_step_seconds": outlier.typical_seconds,
            "culprit": of.rank == outlier.culprit,
        }
        if of.rank == outlier.culprit:
            attributes |= {"phase": outlier.phase or "", "lost_seconds": outlier.lost_seconds}
        attributes |= {
            f"{phase.phase}_seconds": phase.seconds
            for phase in of.phases
            if phase.ended_before_seconds is None
        }
        start = _ns(of.ended_at - of.seconds)
        span = self._tracer.start_span(STEP_SPAN, attributes=attributes, start_time=start)
        assert isinstance(span, Span)
        return span

    def _phases(self, outlier: Outlier, of: RankStep, root: Span) -> None:
        parent = set_span_in_context(root)
        for phase, start, end in _placed(of):
            is_to_blame = of.rank == outlier.culprit and phase.phase == outlier.phase
            attributes: dict[str, str | int | bool] = {
                "run": self._run,
                "rank": str(of.rank),
                "step": outlier.step,
                "phase": phase.phase,
                "culprit": is_to_blame,
            }
            span = self._tracer.start_span(
                phase.phase, parent, attributes=attributes, start_time=_ns(start)
            )
            span.end(_ns(end))


class _Ended(SpanProcessor):
    """Holds the spans of one step until they are sent."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """What the SDK calls."""
        self._spans.append(span)

    def take(self) -> Sequence[ReadableSpan]:
        """All of them, once."""
        spans, self._spans = self._spans, []
        return spans


def _placed(of: RankStep) -> Iterator[tuple[PhaseTime, float, float]]:
    """Phases with a place in the step; one that came in parts is told in one, up to its end."""
    begin = of.ended_at - of.seconds
    for phase in of.phases:
        if phase.ended_before_seconds is not None:
            end = of.ended_at - phase.ended_before_seconds
            yield phase, max(end - phase.seconds, begin), end


def _longest(outlier: Outlier) -> int:
    return max(outlier.ranks, key=lambda of: of.seconds).rank


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)

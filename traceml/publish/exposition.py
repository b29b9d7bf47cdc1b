"""The catalogue as text, in the two forms that Prometheus reads.

They differ in the lines before a metric's samples, in the exemplars, and in the
last line, which OpenMetrics alone has.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, zip_longest
from typing import TypeAlias

from prometheus_client.utils import floatToGoString

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric
from traceml.snapshot import Exemplar, Snapshot, StepHistogram


class Form(Enum):
    """How the text is written."""

    CLASSIC = "text/plain"
    OPENMETRICS = "application/openmetrics-text"


Labels: TypeAlias = tuple[str, ...]

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_CLASSIC_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LOWEST, _PLAIN_BELOW = float("-inf"), 1e6  # Python and Go write what is between alike


class Writer:
    """Writes Snapshots.

    A series is written as its head, which is the name and the labels, and a number. Most series
    of a Snapshot were in the one before, so the heads are kept; those it no longer has are not.
    """

    def __init__(self, catalogue: Sequence[Metric] = CATALOGUE) -> None:
        self._catalogue = catalogue
        self._heads: dict[str, dict[Labels, str]] = {}

    def write(self, snapshot: Snapshot, form: Form) -> bytes:
        """Every metric that has a value in this Snapshot."""
        parts: list[str] = []
        for metric in self._catalogue:
            lines = self._lines(metric, snapshot, form)
            if lines:
                parts.append(_preamble(metric, form))
                parts += lines
        if form is Form.OPENMETRICS:
            parts.append("# EOF\n")
        return "".join(parts).encode()

    def _lines(self, metric: Metric, snapshot: Snapshot, form: Form) -> list[str]:
        if metric.kind == "histogram":
            return list(_histogram_lines(metric, snapshot, form))
        name, names = _series_name(metric), metric.all_labels
        before = self._heads.get(name, {})
        heads: dict[Labels, str] = {}
        lines = []
        for labels, value in metric.samples(snapshot):
            assert not isinstance(value, StepHistogram)
            heads[labels] = head = before.get(labels) or _head(name, names, labels)
            lines.append(f"{head} {number(value)}\n")
        self._heads[name] = heads
        return lines


def number(value: float) -> str:
    """A number as Go writes it, for the most part."""
    value = float(value)
    if _LOWEST < value < _PLAIN_BELOW:
        return repr(value)
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _preamble(metric: Metric, form: Form) -> str:
    if form is Form.CLASSIC:
        name, text = _series_name(metric), metric.help.translate(_CLASSIC_HELP_ESCAPES)
        return f"# HELP {name} {text}\n# TYPE {name} {metric.type}\n"
    name, text = metric.name, metric.help.translate(_ESCAPES)
    unit = f"# UNIT {name} {metric.unit}\n" if metric.unit else ""
    return f"# HELP {name} {text}\n# TYPE {name} {metric.type}\n{unit}"


def _series_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name


def _head(name: str, names: Iterable[str], labels: Iterable[str]) -> str:
    pairs = sorted(zip(names, labels, strict=True))
    return f"{name}{{{_pairs(pairs)}}}"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def _histogram_lines(metric: Metric, snapshot: Snapshot, form: Form) -> Iterator[str]:
    name, names = metric.name, metric.all_labels
    for labels, of in metric.samples(snapshot):
        assert isinstance(of, StepHistogram)
        exemplars = of.exemplars if form is Form.OPENMETRICS else ()
        for bound, count, exemplar in _buckets(of, exemplars):
            head = _head(f"{name}_bucket", (*names, "le"), (*labels, bound))
            yield f"{head} {number(count)}{_trailer(exemplar)}\n"
        yield f"{_head(f'{name}_count', names, labels)} {number(sum(of.counts))}\n"
        yield f"{_head(f'{name}_sum', names, labels)} {number(of.sum_seconds)}\n"


def _buckets(
    of: StepHistogram, exemplars: Iterable[Exemplar | None]
) -> Iterator[tuple[str, int, Exemplar | None]]:
    bounds = (*(repr(bound) for bound in of.bounds_seconds), "+Inf")
    cumulative = zip(bounds, accumulate(of.counts), strict=True)
    for (bound, count), exemplar in zip_longest(cumulative, exemplars):
        yield bound, count, exemplar


def _trailer(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    ids = _pairs((("trace_id", exemplar.trace_id), ("span_id", exemplar.span_id)))
    return f" # {{{ids}}} {number(exemplar.seconds)} {exemplar.timestamp}"

"""What we write, beside what prometheus_client writes, and read by its parsers."""

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_classic

from tests.builders import Clock, golden_run, run_of
from tests.publish import oracle
from traceml.publish.exposition import Form, Writer, number
from traceml.publish.metric import Metric, Sample
from traceml.publish.prometheus import REMEMBERED_SECONDS, Exposition
from traceml.snapshot import Exemplar, RankState, Snapshot, StepHistogram

GOLDEN = golden_run()
OPENMETRICS = "application/openmetrics-text"

unhurried = settings(max_examples=30, deadline=None)
each_form = pytest.mark.parametrize("form", Form)

# Everything that has to be escaped, in and between everything that must not be.
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{},= #'))
numbers = st.floats() | st.integers(-(2**70), 2**70) | st.booleans()
counts = st.integers(0, 2**60)
seconds = st.floats(0, 1e9)
identifiers = st.text("0123456789abcdef", min_size=1, max_size=32)
samples = st.lists(
    st.tuples(st.tuples(texts, texts), numbers | st.none()), unique_by=lambda sample: sample[0]
)
Told = list[tuple[tuple[str, str], float | None]]


@st.composite
def histograms(draw: st.DrawFn) -> StepHistogram:
    bounds = sorted(draw(st.lists(st.floats(0, 1e9), unique=True)))
    exactly = len(bounds) + 1
    return StepHistogram(
        tuple(bounds),
        tuple(draw(st.lists(counts, min_size=exactly, max_size=exactly))),
        draw(st.floats(0, 1e18)),
    )


@st.composite
def ranks(draw: st.DrawFn, number: int) -> RankState:
    by_key = st.dictionaries(texts, numbers, max_size=3)
    return replace(
        GOLDEN.ranks[0],
        rank=number,
        present=draw(st.booleans()),
        gpu_uuid=draw(texts),
        group=draw(texts),
        phase_seconds=draw(by_key),
        samples=draw(numbers | st.none()),
        resident_bytes=draw(numbers | st.none()),
        records_received=draw(counts),
        records_dropped=draw(st.dictionaries(texts, counts, max_size=3)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    of_rank = [draw(ranks(number)) for number in range(draw(st.integers(0, 3)))]
    return replace(
        GOLDEN,
        run=replace(GOLDEN.run, name=draw(texts), torch=draw(texts), started_at=draw(numbers)),
        ranks=tuple(of_rank),
        steps=replace(GOLDEN.steps, histogram=draw(histograms())),
        ranks_expected=draw(counts | st.none()),
    )


def metric(
    kind: Literal["gauge", "counter", "histogram"],
    values: Sequence[Sample],
    labels: tuple[str, ...] = (),
    help: str = "Of no use.",  # noqa: A002
) -> Metric:
    """A metric whose values are these, whatever the Snapshot says."""
    return Metric("traceml_made_up_seconds", kind, "seconds", labels, help, lambda _: values)


def written(snapshot: Snapshot, form: Form, *catalogue: Metric) -> str:
    writer = Writer(catalogue) if catalogue else Writer()
    return writer.write(snapshot, form).decode()


def parsed(text: str, form: Form) -> list[Any]:
    """All samples of a text."""
    parse: Any = parse_openmetrics if form is Form.OPENMETRICS else parse_classic
    return [sample for family in parse(text) for sample in family.samples]


def with_exemplars(*exemplars: Exemplar | None) -> Snapshot:
    histogram = StepHistogram((0.1, 0.2), (3, 2, 1), 1.0, exemplars)
    return replace(GOLDEN, steps=replace(GOLDEN.steps, histogram=histogram))


def buckets(snapshot: Snapshot, form: Form) -> list[Any]:
    steps = metric("histogram", [((), snapshot.steps.histogram)])
    every = parsed(written(snapshot, form, steps), form)
    return [sample for sample in every if sample.name.endswith("_bucket")]


@given(numbers)
def test_a_number_is_written_as_prometheus_client_writes_it(value: float) -> None:
    assert number(value) == oracle.number(value)


@pytest.mark.parametrize(
    "value", [999_999.0, 999_999.9999999999, 1e6, 1e15, 1e16, 1e17, -1e6, -0.0]
)
def test_a_number_at_the_edge_of_the_plain_ones_is_written_the_same(value: float) -> None:
    assert number(value) == oracle.number(value)


@each_form
@pytest.mark.parametrize("kind", ["gauge", "counter"])
@unhurried
@given(before=samples, now=samples, help=texts)
def test_any_samples_are_written_as_prometheus_client_writes_them(
    form: Form,
    kind: Literal["gauge", "counter"],
    before: Told,
    now: Told,
    help: str,  # noqa: A002
) -> None:
    values: list[Sample] = list(before)
    catalogue = [metric(kind, values, ("zone", "area"), help)]
    writer = Writer(catalogue)
    assert writer.write(GOLDEN, form).decode() == oracle.written(GOLDEN, form, catalogue)
    values[:] = now + before[:2]  # some series stay, some are new, the others go
    assert writer.write(GOLDEN, form).decode() == oracle.written(GOLDEN, form, catalogue)


@each_form
@unhurried
@given(histograms())
def test_any_histogram_is_written_as_prometheus_client_writes_it(
    form: Form, histogram: StepHistogram
) -> None:
    catalogue = metric("histogram", [((), histogram)])
    assert written(GOLDEN, form, catalogue) == oracle.written(GOLDEN, form, [catalogue])


@each_form
@unhurried
@given(snapshots())
def test_any_run_is_written_as_prometheus_client_writes_it(form: Form, snapshot: Snapshot) -> None:
    assert written(snapshot, form) == oracle.written(snapshot, form)


@each_form
@unhurried
@given(samples)
def test_what_is_written_is_read_again(form: Form, told: Told) -> None:
    text = written(GOLDEN, form, metric("gauge", told, ("zone", "area")))
    read = [
        ((sample.labels["zone"], sample.labels["area"]), repr(sample.value))
        for sample in parsed(text, form)
    ]
    assert read == [(labels, repr(float(value))) for labels, value in told if value is not None]


@unhurried
@given(histograms())
def test_buckets_are_read_again(histogram: StepHistogram) -> None:
    snapshot = replace(GOLDEN, steps=replace(GOLDEN.steps, histogram=histogram))
    read = buckets(snapshot, Form.OPENMETRICS)
    assert [sample.value for sample in read] == [
        float(count) for count in accumulate(histogram.counts)
    ]
    assert [float(sample.labels["le"]) for sample in read] == [
        *histogram.bounds_seconds,
        float("inf"),
    ]


@unhurried
@given(identifiers, identifiers, seconds, st.floats(1e9, 4e9))
def test_exemplars_are_read_again_from_their_buckets(
    trace_id: str, span_id: str, length: float, timestamp: float
) -> None:
    exemplar = Exemplar(trace_id, span_id, length, timestamp)
    first, second, last = buckets(with_exemplars(None, exemplar, None), Form.OPENMETRICS)
    assert first.exemplar is None
    assert last.exemplar is None
    assert second.exemplar.labels == {"trace_id": trace_id, "span_id": span_id}
    assert second.exemplar.value == length
    assert float(second.exemplar.timestamp) == pytest.approx(timestamp, abs=1e-6)


def test_an_exemplar_stands_behind_the_number_of_its_bucket() -> None:
    text = written(
        with_exemplars(None, Exemplar("4bf9", "00f0", 0.123, 1.7e9), None), Form.OPENMETRICS
    )
    line = next(line for line in text.splitlines() if 'le="0.2"' in line)
    assert line == (
        'traceml_step_seconds_bucket{le="0.2",run="demo"} 5.0'
        ' # {trace_id="4bf9",span_id="00f0"} 0.123 1700000000.0'
    )


def test_classic_text_has_no_exemplars() -> None:
    exemplar = Exemplar("4bf9", "00f0", 0.123, 1.7e9)
    shown, hidden = with_exemplars(exemplar, exemplar, exemplar), with_exemplars()
    assert written(shown, Form.CLASSIC) == written(hidden, Form.CLASSIC)


class Label(str):
    """A label's value whose end can be seen."""


def test_series_that_the_last_snapshot_did_not_have_are_forgotten() -> None:
    values: list[Sample] = [((Label("gone"),), 1.0)]
    gone = weakref.ref(values[0][0][0])
    writer = Writer([metric("gauge", values, ("zone",))])
    writer.write(GOLDEN, Form.CLASSIC)
    values[:] = [(("here",), 1.0)]
    assert 'zone="gone"' not in writer.write(GOLDEN, Form.CLASSIC).decode()
    assert gone() is None


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/plain",
        "text/plain;version=0.0.4",
        "text/plain;version=1.0.0;escaping=allow-utf-8",
        f"{OPENMETRICS};version=0.0.1",
        f"{OPENMETRICS};version=1.0.0",
        f"{OPENMETRICS};version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3",
        f"text/html,{OPENMETRICS};version=1.0.0;escaping=underscores",
    ],
)
def test_a_scraper_gets_what_prometheus_client_would_give_it(accept: str) -> None:
    _, content_type = choose_encoder(accept)
    form = Form.OPENMETRICS if content_type.startswith(OPENMETRICS) else Form.CLASSIC
    body, told = shown(GOLDEN).answer(accept, zipped=False)
    assert told == content_type
    assert body.decode() == oracle.written(GOLDEN, form)


def test_names_stay_as_they_are_where_dots_were_to_be_escaped() -> None:
    accept = f"{OPENMETRICS};version=1.0.0;escaping=dots"
    body, told = shown(GOLDEN).answer(accept, zipped=False)
    assert told.endswith("escaping=underscores")
    assert body.decode() == oracle.written(GOLDEN, Form.OPENMETRICS)


def test_one_exposition_serves_one_run_after_the_other() -> None:
    exposition = Exposition()
    for snapshot in (run_of(2), run_of(3, name="night"), run_of(1)):
        exposition.show(snapshot)
        body, _ = exposition.answer("", zipped=False)
        assert body.decode() == oracle.written(snapshot, Form.CLASSIC)


def shown(snapshot: Snapshot, clock: Callable[[], float] = time.monotonic) -> Exposition:
    exposition = Exposition(clock=clock)
    exposition.show(snapshot)
    return exposition


def test_what_was_asked_for_lately_is_written_before_it_is_asked_for(
    renderings: list[Form],
) -> None:
    clock = Clock()
    exposition = shown(run_of(2), clock)
    assert renderings == []
    exposition.answer(OPENMETRICS + ";version=1.0.0", zipped=True)
    assert renderings == [Form.OPENMETRICS]
    clock.advance(REMEMBERED_SECONDS - 1)
    exposition.show(run_of(3))
    assert renderings == [Form.OPENMETRICS] * 2
    exposition.answer(OPENMETRICS + ";version=1.0.0", zipped=True)
    exposition.answer(OPENMETRICS + ";version=1.0.0", zipped=False)
    assert renderings == [Form.OPENMETRICS] * 2
    clock.advance(REMEMBERED_SECONDS + 1)  # whoever came has gone
    exposition.show(run_of(2))
    assert renderings == [Form.OPENMETRICS] * 2

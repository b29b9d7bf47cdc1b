from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource

from tests.receiver import attributes_of
from traceml.publish.otlp.traces import STEP_SPAN, Traces
from traceml.snapshot import Exemplar, Outlier, PhaseTime, RankStep

END = 1_700_000_000.5


def step_of(rank: int, forward: float, wait: float, ended_at: float = END) -> RankStep:
    """0.1 s of forward, wait and, here and there, 10 ms of other."""
    phases = (
        PhaseTime("forward", forward, wait + 0.005),
        PhaseTime("collective_wait", wait, 0.005),
        PhaseTime("other", 0.010, None),
    )
    return RankStep(rank, forward + wait + 0.010, ended_at, phases)


def outlier(culprit: int | None = 1, ranks: int = 3) -> Outlier:
    fast, slow = (0.020, 0.070), (0.090, 0.0)
    steps = tuple(step_of(r, *(slow if r == 1 else fast)) for r in range(ranks))
    phase = None if culprit is None else "forward"
    return Outlier(7, 42, 0.1, 0.03, culprit, phase, 0.07, steps)


def exported(of: Outlier) -> tuple[dict[int, dict[str, Any]], Exemplar]:
    """Spans as they are on the wire, by rank and name."""
    spans, exemplar = Traces(Resource({}), "demo").of(of)
    by_rank: dict[int, dict[str, Any]] = {}
    for resource in encode_spans(spans).resource_spans:
        for span in resource.scope_spans[0].spans:
            by_rank.setdefault(int(attributes_of(span)["rank"]), {})[span.name] = span
    return by_rank, exemplar


def test_a_rank_s_step_is_a_root_and_its_phases_are_children_in_the_same_trace() -> None:
    by_rank, _ = exported(outlier())
    assert set(by_rank) == {0, 1, 2}
    for spans in by_rank.values():
        root = spans.pop(STEP_SPAN)
        assert root.parent_span_id == b""
        assert set(spans) == {"forward", "collective_wait"}
        for child in spans.values():
            assert (child.trace_id, child.parent_span_id) == (root.trace_id, root.span_id)
    assert len({spans["forward"].trace_id for spans in by_rank.values()}) == 3


def test_spans_are_at_their_true_times() -> None:
    spans = exported(outlier())[0][1]
    root, forward = spans[STEP_SPAN], spans["forward"]
    assert root.end_time_unix_nano == round(END * 1e9)
    assert root.end_time_unix_nano - root.start_time_unix_nano == pytest.approx(100e6, abs=1e3)
    assert forward.end_time_unix_nano == pytest.approx((END - 0.005) * 1e9, abs=1e3)
    assert forward.end_time_unix_nano - forward.start_time_unix_nano == pytest.approx(90e6, abs=1e3)


def test_the_culprit_and_its_phase_are_marked_and_nobody_else() -> None:
    by_rank, _ = exported(outlier())
    marked = {
        (rank, name)
        for rank, spans in by_rank.items()
        for name, span in spans.items()
        if attributes_of(span)["culprit"]
    }
    assert marked == {(1, STEP_SPAN), (1, "forward")}
    said = attributes_of(by_rank[1][STEP_SPAN])
    assert (said["run"], said["step"], said["phase"]) == ("demo", 42, "forward")
    assert said["lost_seconds"] == pytest.approx(0.07)
    assert said["other_seconds"] == pytest.approx(0.01)


def test_every_rank_is_linked_with_the_culprit() -> None:
    by_rank, _ = exported(outlier())
    roots = {rank: spans[STEP_SPAN] for rank, spans in by_rank.items()}
    assert {link.trace_id for link in roots[1].links} == {roots[0].trace_id, roots[2].trace_id}
    for rank in (0, 2):
        ((link),) = roots[rank].links
        assert (link.trace_id, link.span_id) == (roots[1].trace_id, roots[1].span_id)


@pytest.mark.parametrize("culprit", [1, None])
def test_the_exemplar_leads_to_the_rank_to_look_at_first(culprit: int | None) -> None:
    by_rank, exemplar = exported(outlier(culprit))
    first = by_rank[1] if culprit == 1 else by_rank[0]  # all are as long: the first
    assert exemplar.trace_id == first[STEP_SPAN].trace_id.hex()
    assert exemplar.span_id == first[STEP_SPAN].span_id.hex()
    assert (exemplar.seconds, exemplar.timestamp) == (0.1, END)


def test_many_ranks_are_all_linked() -> None:
    by_rank, _ = exported(outlier(ranks=200))
    assert len(by_rank[1][STEP_SPAN].links) == 199

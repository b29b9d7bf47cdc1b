"""What must hold of every run, whatever its figures are."""

import math
from collections.abc import Sequence

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.builders import Clock, look, make_collector, make_records, start_ranks
from tests.diagnosis.scene import HEALTHY, Work, scene, step_time
from traceml.diagnosis.finding import DOMAINS, Finding
from traceml.diagnosis.straggler import lower_median, medians_of_others

PHASES = tuple(HEALTHY)
STEPS = 25
ACCUSING = {"INPUT_STRAGGLER", "COMPUTE_STRAGGLER", "STRAGGLER"}

milliseconds = st.floats(1.5, 60.0)
works = st.lists(milliseconds, min_size=len(PHASES), max_size=len(PHASES)).map(
    lambda values: dict(zip(PHASES, values, strict=True))
)
worlds = st.lists(works, min_size=2, max_size=5)

few = settings(max_examples=60, deadline=None)


def diagnosed(ranks: Sequence[Work], exchange: float = 0.5) -> Finding:
    return step_time(scene(ranks, STEPS, exchange)).primary


def accused(ranks: Sequence[Work]) -> set[tuple[str, int]]:
    findings = step_time(scene(ranks, STEPS)).findings
    return {(each.state, each.rank) for each in findings if each.rank is not None}


def is_clear(ranks: Sequence[Work]) -> bool:
    """No two ranks do the same, so that it can't be a matter of order who is named."""
    totals = [sum(work.values()) for work in ranks]
    return all(abs(a - b) > 0.1 for i, a in enumerate(totals) for b in totals[:i])


@few
@given(worlds, st.randoms())
def test_permuting_the_ranks_permutes_only_the_rank_that_is_named(
    ranks: list[Work], random: "st.DataObject"
) -> None:
    assume(is_clear(ranks))
    order = list(range(len(ranks)))
    random.shuffle(order)  # type: ignore[attr-defined]
    before, after = diagnosed(ranks), diagnosed([ranks[place] for place in order])
    assert (after.state, after.phase, after.severity) == (
        before.state,
        before.phase,
        before.severity,
    )
    named = None if after.rank is None else order[after.rank]
    assert named == before.rank


@few
@given(worlds, st.sampled_from([2.0, 8.0, 64.0]))
def test_scaling_all_times_changes_no_state(ranks: list[Work], factor: float) -> None:
    before = diagnosed(ranks)
    scaled = [{phase: value * factor for phase, value in work.items()} for work in ranks]
    after = diagnosed(scaled, exchange=0.5 * factor)
    assert (after.state, after.rank, after.phase) == (before.state, before.rank, before.phase)


@few
@given(worlds, st.floats(0.0, 30.0))
@example(
    ranks=[
        dict(zip(PHASES, [2.0, 32.125, 2.0, 18.0, 60.0, 5.5], strict=True)),
        dict(zip(PHASES, [1.875, 20.1875, 2.0, 2.0, 2.0, 18.0], strict=True)),
    ],
    wait=1.0,
)
def test_more_waiting_never_changes_who_is_to_blame(ranks: list[Work], wait: float) -> None:
    before = {rank for _, rank in accused(ranks)}
    findings = step_time(scene(ranks, STEPS, exchange=0.5 + wait)).findings
    assert {each.rank for each in findings if each.rank is not None} <= before


@few
@given(works, st.lists(works, min_size=1, max_size=2), st.integers(0, 2))
def test_a_healthy_rank_more_never_creates_an_accusation(
    base: Work, more: list[Work], spare: int
) -> None:
    """Healthy is what most ranks are."""
    slow = [{phase: base[phase] + extra[phase] for phase in base} for extra in more]
    ranks = [base] * (len(slow) + 1 + spare) + slow
    before = {state for state, _ in accused(ranks)}
    assert {state for state, _ in accused([*ranks, base])} <= before


@few
@given(worlds, st.sampled_from(PHASES))
def test_a_signal_that_is_missing_convicts_nobody(ranks: list[Work], phase: str) -> None:
    """Where a phase was not measured on all ranks, no finding names it."""
    without = [
        {name: value for name, value in work.items() if name != phase or rank}
        for rank, work in enumerate(ranks)
    ]
    for each in step_time(scene(without, STEPS)).findings:
        assert each.phase != phase or each.rank is None or each.state not in ACCUSING


anything = st.sampled_from([0.0, 1.0, 1e6, 1e9, 1e15, math.nan])


@few
@given(st.data(), st.integers(1, 3), st.integers(1, 4))
def test_whatever_ranks_tell_there_is_something_to_say(
    data: st.DataObject, ranks: int, steps: int
) -> None:
    """Steps of no length, waits longer than their steps, figures that come and go."""
    collector = make_collector(Clock(), ranks_expected=ranks)
    for process in start_ranks(collector, ranks):
        records = make_records(range(steps))
        shape = records.values.shape
        drawn = data.draw(st.lists(anything, min_size=shape[1], max_size=shape[1]))
        records.values[:] = drawn
        records.values[:, 0] = data.draw(st.sampled_from([0.0, 1e6, 1e9]))
        process.send(records)
    snapshot = look(collector)
    for diagnoses in (snapshot.window_diagnoses, snapshot.whole_diagnoses):
        assert {of.primary.domain for of in diagnoses.values()} == set(DOMAINS)


@given(st.lists(st.floats(0, 1e3), min_size=2, max_size=9))
def test_the_median_of_the_others_is_one_of_theirs(values: list[float]) -> None:
    found = medians_of_others(dict(enumerate(values)))
    for rank in range(len(values)):
        others = [value for other, value in enumerate(values) if other != rank]
        assert found[rank] == lower_median(others)

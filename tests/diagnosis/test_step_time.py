"""The truth table of step time, on runs made by hand."""

from dataclasses import replace

import pytest

from tests.builders import look
from tests.diagnosis.scene import healthy, run_of, scene, step_time
from traceml.diagnosis.diagnose import diagnosed
from traceml.diagnosis.finding import Finding
from traceml.diagnosis.policy import DEFAULT
from traceml.snapshot import Snapshot

DELAY = 16.0  # 40 % of the step


def primary(snapshot: Snapshot) -> tuple[str, int | None, str | None]:
    found = step_time(snapshot).primary
    return found.state, found.rank, found.phase


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("dataloader", "INPUT_STRAGGLER"),
        ("h2d", "INPUT_STRAGGLER"),
        ("forward", "COMPUTE_STRAGGLER"),
        ("backward", "COMPUTE_STRAGGLER"),
        ("optimizer", "COMPUTE_STRAGGLER"),
        ("other", "STRAGGLER"),
    ],
)
def test_one_slow_rank_is_named_with_its_phase(phase: str, state: str, ranks: int) -> None:
    slow = ranks - 1
    delayed = healthy(**{phase: healthy()[phase] + DELAY})
    works = [delayed if rank == slow else healthy() for rank in range(ranks)]
    snapshot = scene(works)
    assert primary(snapshot) == (state, slow, phase)
    found = step_time(snapshot).primary
    assert found.severity == "critical"
    assert found.chronic
    assert found.lost_seconds_per_step == pytest.approx(DELAY / 1e3, rel=0.05)
    assert f"ank {slow}" in found.summary
    assert found.action


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("dataloader", "INPUT_BOUND"),
        ("h2d", "INPUT_BOUND"),
        ("forward", "COMPUTE_BOUND"),
        ("backward", "COMPUTE_BOUND"),
        ("optimizer", "COMPUTE_BOUND"),
        ("other", "WAIT_HEAVY"),
    ],
)
def test_where_all_ranks_are_slow_the_phase_is_named_and_no_rank(phase: str, state: str) -> None:
    snapshot = scene([healthy(**{phase: 20.0})] * 2)
    assert primary(snapshot) == (state, None, phase)


def test_copies_alone_are_also_a_finding_of_their_own() -> None:
    states = [each.state for each in step_time(scene([healthy(h2d=8.0)] * 2)).findings]
    assert "H2D_BOUND" in states


def test_a_slow_exchange_is_nobodys_own_work() -> None:
    assert primary(scene([healthy()] * 2, exchange=16.0)) == ("COMM_BOUND", None, "collective_wait")


@pytest.mark.parametrize(
    ("cpu", "cores", "exchange_ms", "severity", "confidence"),
    [
        (0.5, 1.0, 7.0, "warning", "high"),
        (0.5, 1.0, 16.0, "critical", "high"),
        (0.9, 1.0, 7.0, "warning", "low"),
        (0.9, 1.0, 16.0, "warning", "low"),
        (0.9, 0.5, 7.0, None, ""),
        (0.9, 0.5, 16.0, "warning", "low"),
        (0.9, 0.1, 7.0, "warning", "low"),
    ],
)
def test_an_exchange_that_waits_for_cores_has_to_take_more_of_the_step(
    cpu: float, cores: float, exchange_ms: float, severity: str | None, confidence: str
) -> None:
    snapshot = scene([healthy()] * 2, exchange=exchange_ms)
    ranks = tuple(replace(rank, cpu_cores=cores) for rank in snapshot.ranks)
    busy = replace(snapshot.host_window, cpu_utilization_ratio=cpu)
    run = replace(snapshot.run, device="cpu")
    judged = diagnosed(replace(snapshot, run=run, ranks=ranks, host_window=busy), DEFAULT)
    found = [f for f in step_time(judged).findings if f.state == "COMM_BOUND"]
    assert [(f.severity, f.confidence) for f in found] == (
        [] if severity is None else [(severity, confidence)]
    )


def test_healthy_ranks_are_told_so() -> None:
    found = step_time(scene([healthy()] * 4)).primary
    assert (found.state, found.severity) == ("COMPUTE_BOUND", "info")
    found = step_time(
        scene([healthy(forward=5.0, backward=5.0, optimizer=5.0, dataloader=0.5)])
    ).primary
    assert found.severity == "info"


def test_a_rank_slow_in_input_and_in_compute_is_a_straggler_in_both() -> None:
    snapshot = scene([healthy(), healthy(dataloader=10.0, forward=24.0)])
    assert primary(snapshot) == ("STRAGGLER", 1, "forward")
    states = {each.state for each in step_time(snapshot).findings}
    assert states >= {"STRAGGLER", "INPUT_STRAGGLER", "COMPUTE_STRAGGLER"}


def test_imbalance_that_goes_round_is_passing_and_names_nobody() -> None:
    steps = [
        [healthy(**({"forward": 28.0} if step % 4 == rank else {})) for rank in range(4)]
        for step in range(60)
    ]
    found = step_time(look(run_of(steps))).primary
    assert (found.state, found.rank, found.chronic) == ("STRAGGLER", None, False)


def test_one_step_in_three_is_enough_and_said_to_be_passing() -> None:
    slow, normal = [healthy(), healthy(forward=32.0)], [healthy()] * 2
    found = step_time(look(run_of([slow, normal, normal] * 30))).primary
    assert (found.state, found.rank, found.phase) == ("COMPUTE_STRAGGLER", 1, "forward")
    assert found.chronic is False


def test_two_slow_ranks_of_four_are_not_hidden_by_each_other() -> None:
    found = step_time(scene([healthy(), healthy(), healthy(forward=28.0), healthy(forward=26.0)]))
    assert (found.primary.state, found.primary.rank) == ("COMPUTE_STRAGGLER", 2)


def test_stages_of_a_pipeline_are_not_compared_with_each_other() -> None:
    works = [healthy(), healthy(forward=40.0)]
    assert step_time(scene(works)).primary.rank == 1
    diagnosis = step_time(scene(works, groups=("stage 0", "stage 1")))
    assert diagnosis.primary.rank is None
    assert not {"INPUT_STRAGGLER", "COMPUTE_STRAGGLER"} & diagnosis.scores.keys()


def test_what_is_shorter_than_a_millisecond_is_nobodys_problem() -> None:
    tiny = dict.fromkeys(healthy(), 0.05)
    diagnosis = step_time(scene([tiny, {**tiny, "forward": 0.5}], exchange=0.01))
    assert diagnosis.primary.severity == "info"


def test_with_few_steps_nothing_is_critical() -> None:
    works = [healthy(), healthy(forward=40.0)]
    assert step_time(scene(works, steps=19)).primary.severity == "warning"
    assert step_time(scene(works, steps=20)).primary.severity == "critical"


def test_one_step_says_nothing() -> None:
    assert step_time(scene([healthy()], steps=1)).primary.state == "NO_DATA"


def test_steps_of_very_different_length_jitter() -> None:
    steps = [[healthy(**({"other": 40.0} if step % 10 == 0 else {}))] for step in range(60)]
    diagnosis = step_time(look(run_of(steps, policy='{"wait_warning": 0.5, "wait_critical": 0.9}')))
    assert diagnosis.primary.state == "JITTER"


def test_a_threshold_can_be_changed() -> None:
    works = [healthy(), healthy(forward=16.0)]
    assert step_time(scene(works)).primary.severity == "info"
    changed = step_time(scene(works, policy='{"straggler_warning": 0.05}')).primary
    assert (changed.state, changed.rank, changed.severity) == ("COMPUTE_STRAGGLER", 1, "warning")


def test_scores_are_from_one_on_where_a_rule_holds() -> None:
    diagnosis = step_time(scene([healthy(), healthy(forward=28.0)]))
    held = {each.state for each in diagnosis.findings}
    for state, score in diagnosis.scores.items():
        assert (score >= 1) == (state in held), state


def test_a_rank_alone_is_compared_with_nobody() -> None:
    diagnosis = step_time(scene([healthy(forward=40.0)]))
    straggling = {"INPUT_STRAGGLER", "COMPUTE_STRAGGLER", "STRAGGLER"}
    assert not straggling & diagnosis.scores.keys()


def test_every_finding_says_why_and_what_next() -> None:
    for works in ([healthy(), healthy(other=30.0)], [healthy(dataloader=30.0)] * 2):
        for each in step_time(scene(works)).findings:
            assert isinstance(each, Finding)
            assert each.summary.endswith(".")
            assert each.action.endswith(".")
            assert each.evidence

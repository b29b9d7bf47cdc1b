"""What makes a job fail, and with which exit code."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.report.compare.conftest import MakeSide
from tests.report.compare.made import PHASES, Workload
from traceml.report.compare.comparison import Comparison, compare
from traceml.report.compare.gate import Gate
from traceml.report.compare.side import Side

CALM = Workload(step_noise=0.02, hiccups=0.0, run_noise=0.002)
GIB = 2.0**30


@pytest.fixture
def bases(make_side: MakeSide) -> list[Side]:
    return [make_side(CALM) for _ in range(3)]


def gated(bases: Sequence[Side], candidate: Side, *fail_on: str, **limits: float) -> Comparison:
    return compare(bases, candidate, gate=Gate(fail_on, limits))


def test_without_a_gate_everything_passes(bases: list[Side], make_side: MakeSide) -> None:
    compared = gated(bases, make_side(CALM.slower("other", 0.5)))
    assert (compared.exit_code, compared.checks) == (0, ())


@pytest.mark.parametrize(
    ("more", "fail_on", "exit_code"),
    [
        (0.5, ("regression",), 1),
        (0.5, ("regression", "inconclusive"), 1),
        (0.5, ("inconclusive",), 0),
        (0.0, ("regression", "inconclusive"), 0),
    ],
)
def test_a_regression_fails_where_it_is_asked_to(
    bases: list[Side], make_side: MakeSide, more: float, fail_on: tuple[str, ...], exit_code: int
) -> None:
    assert gated(bases, make_side(CALM.slower("other", more)), *fail_on).exit_code == exit_code


@pytest.mark.parametrize(
    ("fail_on", "exit_code"),
    [((), 0), (("regression",), 0), (("inconclusive",), 3), (("regression", "inconclusive"), 3)],
)
def test_an_open_verdict_fails_only_where_it_is_asked_to(
    bases: list[Side], make_side: MakeSide, fail_on: tuple[str, ...], exit_code: int
) -> None:
    short = make_side(replace(CALM, steps=5))
    assert gated(bases, short, *fail_on).exit_code == exit_code


def test_mixed_is_a_regression_too(bases: list[Side], make_side: MakeSide) -> None:
    faster = CALM.slower("other", -0.04).slower("backward", -0.2)
    candidate = replace(make_side(faster), memory={"rss": 2 * GIB})
    compared = gated(bases, candidate, "regression")
    assert (compared.verdict.state, compared.exit_code) == ("MIXED", 1)


@pytest.mark.parametrize(("limit", "exit_code"), [(0.10, 1), (0.50, 0)])
def test_a_limit_on_the_step_holds_by_itself(
    bases: list[Side], make_side: MakeSide, limit: float, exit_code: int
) -> None:
    compared = gated(bases, make_side(CALM.slower("other", 0.25)), step_time=limit)
    assert compared.exit_code == exit_code


def test_a_limit_on_memory_holds_by_itself(bases: list[Side], make_side: MakeSide) -> None:
    candidate = replace(make_side(CALM), memory={"rss": 1.2 * GIB})
    assert gated(bases, candidate, memory=0.10).exit_code == 1
    assert gated(bases, candidate, memory=0.30).exit_code == 0


def test_what_noise_may_have_done_is_left_open(bases: list[Side], make_side: MakeSide) -> None:
    longer = {phase: 1.08 * seconds for phase, seconds in PHASES.items()}
    wild = make_side(Workload(longer, steps=30, step_noise=0.4))
    compared = gated(bases, wild, step_time=0.0)
    (check,) = compared.checks
    assert check.outcome == 3
    assert "noise" in check.why
    assert compared.exit_code == 0
    assert gated(bases, wild, "inconclusive", step_time=0.0).exit_code == 3


def test_what_was_not_measured_can_not_be_judged(bases: list[Side], make_side: MakeSide) -> None:
    candidate = replace(make_side(CALM), memory={})
    compared = gated(bases, candidate, "inconclusive", memory=0.1)
    assert compared.exit_code == 3
    assert "not measured" in compared.checks[0].why


def test_no_limit_is_judged_where_runs_can_not_be_compared(
    bases: list[Side], make_side: MakeSide
) -> None:
    other = make_side(CALM.slower("other", 0.5), torch="2.14.0")
    gate = Gate((), {"step_time": 0.1})
    compared = compare(bases, other, gate=gate, same_environment=True)
    assert compared.checks[0].outcome == 3
    assert compared.exit_code == 0


def test_a_limit_holds_where_a_single_phase_tells(make_side: MakeSide) -> None:
    """The step's own noise hides it: its runs differ as wholes, and its forward is longer."""
    noisy = replace(CALM, run_noise=0.03)
    bases = [make_side(noisy) for _ in range(3)]
    compared = gated(bases, make_side(CALM.slower("forward", 0.12)), step_time=0.05)
    assert compared.effects.step is not None
    assert compared.effects.step.told_by == "forward"
    assert compared.exit_code == 1

"""How often a comparison is right, on made-up runs: what was planted is known exactly.

Seeds are fixed and bounds are what is promised, so samples are large enough for the rates that
the method really has to keep clear of them.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.report.compare.made import PHASES, Workload, made_side
from traceml.report.compare.comparison import Comparison, compare
from traceml.report.compare.rules import DEFAULT, Rules

CLAIMS = ("REGRESSION", "IMPROVEMENT", "MIXED")


def pairs(
    seed: int,
    base: Workload,
    candidate: Workload,
    count: int,
    baselines: int = 3,
    rules: Rules = DEFAULT,
) -> list[Comparison]:
    """So many comparisons, each with runs of its own."""
    rng = np.random.default_rng(seed)
    return [
        compare([made_side(rng, base) for _ in range(baselines)], made_side(rng, candidate), rules)
        for _ in range(count)
    ]


def states(compared: list[Comparison]) -> Counter[str]:
    return Counter(each.verdict.state for each in compared)


def claims(compared: list[Comparison]) -> int:
    said = states(compared)
    return sum(said[state] for state in CLAIMS)


@pytest.mark.parametrize("run_noise", [0.003, 0.01])
def test_of_equal_runs_three_quarters_are_equivalent_and_none_a_regression(
    run_noise: float,
) -> None:
    workload = Workload(run_noise=run_noise)
    compared = pairs(1, workload, workload, count=100)
    assert states(compared)["EQUIVALENT"] >= 75
    assert claims(compared) == 0


@pytest.mark.parametrize("phase", PHASES)
def test_a_quarter_more_in_a_phase_is_a_regression_by_that_phase(phase: str) -> None:
    workload = Workload(run_noise=0.01)
    compared = pairs(2, workload, workload.slower(phase, 0.25), count=40)
    right = [
        each
        for each in compared
        if each.verdict.state == "REGRESSION" and each.causes[0].phase == phase
    ]
    assert len(right) >= 38


@pytest.mark.parametrize("phase", PHASES)
def test_a_tenth_more_is_mostly_a_regression_and_hardly_ever_equivalent(phase: str) -> None:
    workload = Workload(run_noise=0.01)
    said = states(pairs(3, workload, workload.slower(phase, 0.10), count=40))
    assert said["REGRESSION"] >= 20
    assert said["EQUIVALENT"] <= 2


def test_what_was_slower_is_an_improvement_when_it_is_gone() -> None:
    slow = Workload().slower("dataloader", 0.4)
    assert states(pairs(4, slow, Workload(), count=20))["IMPROVEMENT"] == 20


@pytest.mark.parametrize("baselines", [1, 3, 5])
def test_where_equal_runs_differ_much_hardly_anything_is_claimed(baselines: int) -> None:
    """By 2 % from run to run, more than is assumed."""
    noisy = Workload(run_noise=0.02)
    assert claims(pairs(5, noisy, noisy, 200, baselines)) <= 10


def test_without_run_noise_much_would_be_claimed() -> None:
    """What the test above would not find otherwise."""
    blind = replace(DEFAULT, assumed_run_noise=0.0)
    noisy = Workload(run_noise=0.02, step_noise=0.02, hiccups=0.0)
    assert claims(pairs(5, noisy, noisy, 200, 1, blind)) > 10


@pytest.mark.parametrize("alike", [0.0, 0.6, 0.9])
def test_slow_stretches_of_steps_do_not_pass_for_a_change(alike: float) -> None:
    """Steps that wander by a tenth, in ever longer stretches, in runs that are equal."""
    wandering = Workload(step_noise=0.1, alike=alike, run_noise=0.0)
    assert claims(pairs(6, wandering, wandering, 100, 1)) <= 2


def test_a_change_of_exactly_the_threshold_is_seldom_called_equivalent() -> None:
    """One in twenty at the level of the interval; never more than one in ten."""
    workload = Workload(run_noise=0.01)
    said = states(pairs(7, workload, workload.slower("forward", 0.05), count=200))
    assert said["EQUIVALENT"] <= 20


def test_as_many_steps_as_are_asked_for_do() -> None:
    few = Workload(steps=40, step_noise=0.15, alike=0.5, run_noise=0.002)
    compared = pairs(8, few, few, count=40)
    assert states(compared)["EQUIVALENT"] < 20
    asked = [each.verdict.advice for each in compared]
    steps = [each.steps for each in asked if each is not None and each.steps is not None]
    assert len(steps) >= 20
    enough = replace(few, steps=int(np.median(steps)))
    assert states(pairs(9, enough, enough, count=40))["EQUIVALENT"] >= 20

"""What is said of noise holds where the noise is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.report.compare.noise import (
    Estimate,
    difference,
    exact,
    run_noise,
    slow_steps,
    typical,
)
from traceml.report.compare.rules import DEFAULT
from traceml.report.compare.side import Reading, Series

amounts = st.floats(1e-6, 1e6)


def series_of(values: object) -> Series:
    told = tuple(np.asarray(values, dtype=float).tolist())
    return Series(told, (1,) * len(told))


def wandering(rng: np.random.Generator, steps: int, alike: float) -> object:
    values = rng.normal(size=steps)
    values[1:] *= math.sqrt(1 - alike**2)
    for step in range(1, steps):
        values[step] += alike * values[step - 1]
    return 1 + 0.05 * values


@pytest.mark.parametrize(
    ("level", "degrees", "quantile"),
    [
        (0.90, 6, 1.943),
        (0.99, 3, 5.841),
        (0.99, 4, 4.604),
        (0.99, 8, 3.355),
        (0.95, 30, 2.042),
        (0.95, 1000, 1.962),
    ],
)
def test_an_interval_is_as_wide_as_student_s_table_says(
    level: float, degrees: float, quantile: float
) -> None:
    candidate = Estimate(2.0, 1.0, degrees)
    found = difference([exact(1.0)], candidate, DEFAULT, scale=0.0)
    assert found.noise(level) == pytest.approx(quantile, abs=0.002)


@pytest.mark.parametrize("steps", [150, 1000])
@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_the_error_of_a_mean_is_not_belittled_where_slow_steps_come_together(
    steps: int, alike: float
) -> None:
    """The true mean is within 95 % intervals of at least 90 in 100 runs."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        series = series_of(wandering(rng, steps, alike))
        found = typical(Reading(series.mean, series), DEFAULT)
        half = difference([exact(1.0)], found, DEFAULT, scale=0.0).noise(0.95)
        covered += abs(found.value - 1.0) <= half
    assert covered >= 180


def test_an_error_that_took_steps_for_independent_would_be_too_small() -> None:
    """What the test above would not find otherwise."""
    rng = np.random.default_rng(5)
    values = np.asarray(wandering(rng, 1000, 0.9))
    naive = float(values.std(ddof=1)) / math.sqrt(len(values))
    series = series_of(values)
    assert typical(Reading(series.mean, series), DEFAULT).error > 2 * naive


def test_a_hiccup_is_a_slow_step_of_which_one_is_no_more_than_noise() -> None:
    values = [0.020] * 100
    values[30] = 2.0
    reading = Reading(0.020, series_of(values))
    assert typical(reading, DEFAULT).error == 0.0
    slow = slow_steps(reading, series_of(values))
    assert slow.value == pytest.approx(0.0198)
    assert slow.error == pytest.approx(slow.value, rel=0.1)


def test_slow_steps_are_worth_the_same_in_short_parts_and_in_long_ones() -> None:
    values = [0.020 * (11 if step % 25 == 0 else 1) for step in range(1000)]
    long = Series(tuple(np.reshape(values, (250, 4)).mean(axis=1).tolist()), (4,) * 250)
    worth = [slow_steps(Reading(0.020), each).value for each in (series_of(values), long)]
    assert worth[0] == pytest.approx(worth[1])


def test_the_noise_of_a_figure_is_relative_to_what_the_summary_says_of_it() -> None:
    rng = np.random.default_rng(1)
    series = series_of(wandering(rng, 200, 0.3))
    once, twice = (typical(Reading(value, series), DEFAULT) for value in (1.0, 2.0))
    assert twice.error == pytest.approx(2 * once.error)


def test_where_steps_are_not_told_a_large_noise_is_assumed_and_said() -> None:
    for reading in (Reading(1.0), Reading(1.0, series_of([1.0, 1.0]))):
        found = typical(reading, DEFAULT)
        assert not found.known
        assert found.error == DEFAULT.unknown_step_noise


def test_the_last_part_counts_by_its_steps() -> None:
    assert Series((1.0, 4.0), (3, 1)).mean == pytest.approx(1.75)


@given(st.lists(amounts, min_size=2, max_size=8))
def test_run_noise_is_never_less_than_the_baselines_show(values: list[float]) -> None:
    bases = [exact(value) for value in values]
    seen = float(np.std(values, ddof=1)) / (sum(values) / len(values))
    assert run_noise(bases, DEFAULT) >= seen * (1 - 1e-9)


def test_calm_baselines_lower_the_noise_and_do_not_take_it_away() -> None:
    few, many = ([exact(1.0)] * count for count in (3, 9))
    assert run_noise([exact(1.0)], DEFAULT) > run_noise(few, DEFAULT) > run_noise(many, DEFAULT) > 0


@given(amounts, amounts, st.floats(0, 0.2), st.floats(0, 0.2))
def test_noise_does_not_depend_on_the_unit(
    base: float, candidate: float, base_error: float, candidate_error: float
) -> None:
    def noise(unit: float) -> float:
        old = Estimate(base * unit, base_error * base * unit, 15.0)
        new = Estimate(candidate * unit, candidate_error * candidate * unit, 15.0)
        return difference([old], new, DEFAULT).noise(0.99)

    assert noise(1000.0) == pytest.approx(1000.0 * noise(1.0), rel=1e-6)


@given(amounts, st.floats(0, 0.2))
def test_a_wider_interval_is_surer(value: float, error: float) -> None:
    found = difference([exact(value)], Estimate(value, error * value, 15.0), DEFAULT)
    assert found.noise(0.99) > found.noise(0.95) > found.noise(0.90)

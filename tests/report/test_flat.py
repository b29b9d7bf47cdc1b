import math
import re

import pytest

from tests.builders import Clock, golden_run, look, make_collector, run_of
from traceml.report.flat import flat


def test_every_value_is_a_number_and_every_name_is_one_that_trackers_take() -> None:
    figures = flat(golden_run())
    assert all(math.isfinite(value) for value in figures.values())
    assert all(re.fullmatch(r"traceml(/[A-Za-z0-9_]+)+", name) for name in figures)


def test_both_scopes_are_told() -> None:
    snapshot = golden_run()
    figures = flat(snapshot)
    assert snapshot.window.step is not None
    assert figures["traceml/window/step/median_seconds"] == snapshot.window.step.median
    assert figures["traceml/run/backward/worst_rank"] == 1
    assert figures["traceml/run/backward/worst_seconds"] == pytest.approx(0.030, rel=0.02)
    assert figures["traceml/run/step_time/severity"] == 1
    assert figures["traceml/run/step_time/score/COMPUTE_STRAGGLER"] > 1
    assert figures["traceml/steps_completed"] == 24
    assert figures["traceml/steps_excluded"] == 2


def test_a_rank_alone_is_compared_with_nobody() -> None:
    assert not [name for name in flat(run_of(1)) if "worst" in name or "skew" in name]


def test_before_the_first_step_there_are_counts_only() -> None:
    figures = flat(look(make_collector(Clock())))
    assert figures["traceml/steps_completed"] == 0
    assert not [name for name in figures if name.endswith("_seconds") and "/run/" in name]


def test_what_the_median_ranks_device_idles_is_told_where_there_is_one() -> None:
    assert flat(golden_run())["traceml/window/device_idle_ratio"] == pytest.approx(2 / 53)
    assert not [name for name in flat(run_of(2)) if "idle" in name]

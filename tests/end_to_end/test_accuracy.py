"""Faults planted into real runs are found, as what they are, soon, and gone once they are over."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.accuracy.command import Options, outcomes
from benchmarks.accuracy.judging import Outcome
from benchmarks.accuracy.scores import Scores

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]


def shown(some: Sequence[Outcome]) -> list[str]:
    return [f"{each.segment.label}: {each.found}, {each.steps_to_verdict} steps" for each in some]


def test_every_planted_fault_is_named_and_nothing_else_is(tmp_path: Path) -> None:
    scores = Scores(outcomes(Options(quick=True, keep=tmp_path)))
    assert len(scores.large) >= 15
    assert not shown(scores.missed)
    assert not shown(scores.false_alarms)
    assert not shown(scores.late(grace=10))  # a busy machine makes a step longer than its delay
    assert not shown(scores.lingering)
    assert not [each.wrong_on_the_way for each in scores.astray]

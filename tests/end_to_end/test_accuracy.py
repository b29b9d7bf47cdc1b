"""Faults planted into real runs are found, as what they are, soon, and gone once they are over."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.accuracy.command import Options, outcomes
from benchmarks.accuracy.judging import Outcome
from benchmarks.accuracy.scores import Scores

pytestmark = [pytest.mark.alone, pytest.mark.timeout(700)]


def complaints(folder: Path) -> set[str]:
    """What was not as it should be, each with the fault it was about."""
    scores = Scores(outcomes(Options(quick=True, keep=folder)))
    assert len(scores.large) >= 15
    groups: dict[str, Sequence[Outcome]] = {
        "missed": scores.missed,
        "false alarm": scores.false_alarms,
        "late": scores.late(grace=10),  # a busy machine makes a step longer than its delay
        "not gone": scores.lingering,
        "astray": scores.astray,
    }
    return {
        f"{what}: {each.run}: {each.segment.label}"
        for what, some in groups.items()
        for each in some
    }


def test_every_planted_fault_is_named_and_nothing_else_is(tmp_path: Path) -> None:
    """What else runs on the machine is in the way now and then, but not twice at one place."""
    found = complaints(tmp_path / "first")
    if found:
        found &= complaints(tmp_path / "again")
    assert not found

"""Where a delay is planted on one rank, the figures must say so: that rank, that phase."""

import pytest

from tests.launching import SCRIPTS, Finished, Launcher
from traceml.wire.columns import PHASES

pytestmark = pytest.mark.alone

OWN_PHASES = [phase for phase in PHASES if phase != "collective_wait"]


def most_own_work(finished: Finished) -> int:
    ranks = finished.ranks
    return max(ranks, key=lambda rank: float(ranks[rank]["own_seconds"]))


def largest_excess(finished: Finished) -> str:
    phases = finished.summary["step_time"]["phases"]
    excess = {
        phase: phases[phase]["worst_seconds"] - phases[phase]["median_seconds"]
        for phase in OWN_PHASES
        if phase in phases
    }
    return max(excess, key=lambda phase: float(excess[phase]))


@pytest.mark.parametrize(
    ("where", "phase"),
    [
        ("input", "dataloader"),
        ("forward", "forward"),
        ("backward", "backward"),
        ("optimizer", "optimizer"),
        ("between", "other"),
    ],
)
def test_the_slow_rank_has_the_most_own_work_and_the_slow_phase_the_largest_excess(
    launcher: Launcher, where: str, phase: str
) -> None:
    finished = launcher.run(
        str(SCRIPTS / "training.py"), "--nproc-per-node=4",
        "--args", "--slow", where, "--slow-rank", "1",
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert most_own_work(finished) == 1
    assert largest_excess(finished) == phase
    assert finished.summary["step_time"]["phases"][phase]["worst_rank"] == 1


def test_waiting_for_a_broadcast_in_forward_is_not_own_work(launcher: Launcher) -> None:
    """Under BatchNorm a slow rank 0 makes the others wait inside their forward."""
    finished = launcher.run(
        str(SCRIPTS / "training.py"), "--nproc-per-node=3",
        "--args", "--norm", "--slow", "between", "--slow-rank", "0",
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert most_own_work(finished) == 0
    assert largest_excess(finished) == "other"

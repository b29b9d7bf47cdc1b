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


def verdict(finished: Finished) -> tuple[str, int, str]:
    found = finished.summary["primary_diagnosis"]
    return found["state"], found["rank"], found["phase"]


@pytest.mark.parametrize(
    ("where", "phase", "state"),
    [
        ("input", "dataloader", "INPUT_STRAGGLER"),
        ("forward", "forward", "COMPUTE_STRAGGLER"),
        ("backward", "backward", "COMPUTE_STRAGGLER"),
        ("optimizer", "optimizer", "COMPUTE_STRAGGLER"),
        ("between", "other", "STRAGGLER"),
    ],
)
def test_the_slow_rank_is_named_with_its_phase(
    launcher: Launcher, where: str, phase: str, state: str
) -> None:
    finished = launcher.run(
        str(SCRIPTS / "training.py"), "--nproc-per-node=4",
        "--args", "--slow", where, "--slow-rank", "1",
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert most_own_work(finished) == 1
    assert largest_excess(finished) == phase
    assert finished.summary["step_time"]["phases"][phase]["worst_rank"] == 1
    assert verdict(finished) == (state, 1, phase)


def test_waiting_for_a_broadcast_in_forward_is_not_own_work(launcher: Launcher) -> None:
    """Under BatchNorm a slow rank 0 makes the others wait inside their forward."""
    finished = launcher.run(
        str(SCRIPTS / "training.py"), "--nproc-per-node=3",
        "--args", "--norm", "--slow", "between", "--slow-rank", "0",
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert most_own_work(finished) == 0
    assert largest_excess(finished) == "other"
    assert verdict(finished) == ("STRAGGLER", 0, "other")

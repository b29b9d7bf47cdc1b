"""Ranks that die, hang, come late, or never; and attempts that begin again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import SCRIPTS, Launcher, eventually

TRAINING = str(SCRIPTS / "training.py")


def train_apart(
    launcher: Launcher, hold: Path, rank: int, world_size: int = 2, attempt: int = 0
) -> "subprocess.Popen[str]":
    """A rank that waits for no other, started by hand."""
    environment = {
        "TRACEML_ENDPOINT": launcher.sidecar()["endpoint"],
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, TRAINING, "--apart", "--pause", "0.02", "--hold", str(hold)]
    return launcher.popen(command, environment)


def ranks_shown(launcher: Launcher) -> set[str]:
    lines = launcher.metrics().splitlines()
    return {
        line.split('rank="')[1].split('"')[0]
        for line in lines
        if line.startswith("traceml_rank_steps_total{")
    }


def test_a_rank_that_was_stopped_leaves_comes_back_and_one_that_was_killed_is_done_without(
    launcher: Launcher, hold: Path
) -> None:
    sidecar = launcher.start_sidecar()
    ranks = [train_apart(launcher, hold, rank) for rank in range(2)]
    eventually(lambda: launcher.completed() > 20)
    assert ranks_shown(launcher) == {"0", "1"}

    ranks[1].send_signal(signal.SIGSTOP)
    eventually(lambda: ranks_shown(launcher) == {"0"})
    assert launcher.value('traceml_ranks_expected{run="test"}') == 2.0
    assert launcher.value('traceml_ranks_reporting{run="test"}') == 1.0
    ranks[1].send_signal(signal.SIGCONT)
    eventually(lambda: ranks_shown(launcher) == {"0", "1"})

    ranks[1].kill()
    eventually(lambda: ranks_shown(launcher) == {"0"})
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before + 100)  # the other is looked at alone
    sidecar.terminate()
    finished = launcher.finish(sidecar)
    (absent,) = finished.summary["absent_ranks"]
    assert absent["rank"] == 1
    assert absent["last_step"] > 20
    assert absent["silent_seconds"] >= 10
    assert f"r1 in step {absent['last_step']}," in " ".join(finished.stderr.split())
    notes = " ".join(finished.summary["notes"])
    assert "The others went on without rank 1, silent since step " in notes


def test_a_rank_that_comes_late_is_compared_from_the_first_step(
    launcher: Launcher, hold: Path
) -> None:
    launcher.start_sidecar()
    early = train_apart(launcher, hold, 0)
    eventually(lambda: launcher.value('traceml_rank_steps_total{rank="0",run="test"}') or 0 > 20)
    assert launcher.completed() == 0
    late = train_apart(launcher, hold, 1)
    eventually(lambda: launcher.completed() > 20)
    hold.unlink()
    assert [launcher.finish(rank).exit_code for rank in (early, late)] == [0, 0]
    assert launcher.value('traceml_steps_incomplete_total{reason="missing",run="test"}') == 0.0


def test_a_rank_that_is_stuck_is_named_with_its_step_and_phase(launcher: Launcher) -> None:
    process = launcher.start(
        "--nproc-per-node=2", TRAINING, "--", "--stuck", "30", "--slow-rank", "1", "--pause", "0.01"
    )
    eventually(lambda: launcher.completed() == 30)
    # It is alive and says so: only its step does not move.
    assert ranks_shown(launcher) == {"0", "1"}
    now = ("summarize", str(launcher.run_directory))
    eventually(lambda: launcher.call(*now).ranks[1]["last_phase"] == "forward")
    process.terminate()
    finished = launcher.finish(process)
    assert finished.exit_code == 143
    stuck = finished.ranks[1]
    assert (stuck["last_step"], stuck["last_phase"]) == (30, "forward")
    assert "r1 in step 30, forward" in " ".join(finished.stderr.split())  # however it is wrapped


def test_an_attempt_that_crashed_is_begun_again_with_a_clean_slate(launcher: Launcher) -> None:
    finished = launcher.run(
        "--nproc-per-node=2", "--max-restarts=1", TRAINING,
        "--", "--apart", "--steps", "80", "--crash", "50", "--pause", "0.01",
    )  # fmt: skip
    assert finished.exit_code == 0
    steps = finished.summary["step_time"]["steps"]
    # One rank of the first attempt fails, the other is ended by torchrun.
    assert 80 + 20 < steps["completed"] <= 80 + 51
    assert finished.summary["absent_ranks"] == []
    assert steps["completed"] + steps["incomplete"] <= 80 + 51


def test_a_world_that_shrinks_is_aligned_anew(launcher: Launcher, hold: Path) -> None:
    launcher.start_sidecar()
    before = [train_apart(launcher, hold, rank, world_size=3) for rank in range(3)]
    eventually(lambda: launcher.completed() > 5)
    for rank in before:
        rank.kill()
        rank.wait()
    after = [train_apart(launcher, hold, rank, world_size=2, attempt=1) for rank in range(2)]
    eventually(lambda: launcher.value('traceml_ranks_expected{run="test"}') == 2.0)
    completed = launcher.completed()
    eventually(lambda: launcher.completed() > completed + 10)
    assert ranks_shown(launcher) == {"0", "1"}
    assert launcher.value('traceml_ranks_reporting{run="test"}') == 2.0
    hold.unlink()
    assert [launcher.finish(rank).exit_code for rank in after] == [0, 0]


def test_a_sidecar_stopped_for_half_a_minute_loses_nothing_and_accuses_nobody(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        "--nproc-per-node=2", TRAINING,
        "--", "--pause", "0.01", "--hold", str(hold), "--losses", str(losses),
    )  # fmt: skip
    eventually(lambda: launcher.completed() > 20)
    sidecar = launcher.sidecar()["pid"]
    os.kill(sidecar, signal.SIGSTOP)
    with pytest.raises(AssertionError):  # nobody else ends the stop
        eventually(lambda: None, seconds=30)
    os.kill(sidecar, signal.SIGCONT)
    before = eventually(launcher.completed)
    assert launcher.value('traceml_ranks_reporting{run="test"}') == 2.0
    eventually(lambda: launcher.completed() > before)
    hold.unlink()
    finished = launcher.finish(process)
    assert finished.exit_code == 0
    trained = len(losses.with_suffix(".0").read_text().splitlines())
    assert finished.summary["step_time"]["steps"]["completed"] == trained
    assert finished.summary["telemetry"]["records_dropped"] == 0
    assert finished.summary["absent_ranks"] == []
    assert finished.summary["telemetry"]["sidecar_restarts"] == 0

"""A run that stands still is told so, with the rank and the phase."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.launching import SCRIPTS, Launcher, eventually

STALLED = re.compile(
    r'^traceml_diagnosis_info\{domain="step_time",phase="(\w*)",rank="(\d*)",run="test",'
    r'severity="critical",state="STALLED"\} 1',
    re.MULTILINE,
)


@pytest.fixture
def impatient(tmp_path: Path) -> str:
    file = tmp_path / "policy.toml"
    file.write_text("stalled_seconds = 4\n")
    return str(file)


def stalled(launcher: Launcher) -> tuple[str, str] | None:
    found = STALLED.search(launcher.metrics())
    return (found[2], found[1]) if found else None


def pids(launcher: Launcher) -> dict[int, int]:
    """The training processes by rank."""
    tree = psutil.Process(launcher.sidecar()["pid"]).parent()
    assert tree is not None
    found = {}
    for child in tree.children(recursive=True):
        rank = child.environ().get("RANK")
        if rank is not None and "training.py" in " ".join(child.cmdline()):
            found[int(rank)] = child.pid
    return found


@pytest.mark.parametrize(
    ("flag", "phase"), [("--stuck", "forward"), ("--stuck-fetch", "dataloader")]
)
def test_a_rank_that_is_stuck_is_named_with_its_phase(
    launcher: Launcher, impatient: str, flag: str, phase: str
) -> None:
    run = launcher.start(
        "--policy", impatient, str(SCRIPTS / "training.py"), "--nproc-per-node=2",
        "--args", flag, "30", "--slow-rank", "1",
    )  # fmt: skip
    assert eventually(lambda: stalled(launcher), seconds=90) == ("1", phase)
    run.send_signal(signal.SIGINT)
    finished = launcher.finish(run)
    found = finished.summary["primary_diagnosis"]
    assert (found["state"], found["rank"], found["phase"]) == ("STALLED", 1, phase)
    assert "STALLED (critical)  rank 1" in finished.stderr


def test_a_rank_that_was_stopped_is_named_and_forgiven_when_it_goes_on(
    launcher: Launcher, impatient: str, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    run = launcher.start(
        "--policy", impatient, str(SCRIPTS / "training.py"), "--nproc-per-node=2",
        "--args", "--hold", str(hold), "--pause", "0.02",
    )  # fmt: skip
    eventually(lambda: launcher.completed() > 40)
    rank = eventually(lambda: pids(launcher).get(1))
    os.kill(rank, signal.SIGSTOP)
    # Nobody is to blame until its silence is noticed: it may have been stopped while it waited.
    eventually(lambda: (stalled(launcher) or ("",))[0] == "1", seconds=90)
    os.kill(rank, signal.SIGCONT)
    eventually(_gone(launcher))
    hold.unlink()
    assert launcher.finish(run).exit_code == 0


def _gone(launcher: Launcher) -> Callable[[], bool]:
    return lambda: stalled(launcher) is None

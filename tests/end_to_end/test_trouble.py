"""Whatever happens to the sidecar, training goes on and ends as it would have."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.launching import SCRIPTS, Launcher, eventually

TRAINING = str(SCRIPTS / "training.py")


def test_training_goes_on_when_its_sidecar_is_stopped_and_all_arrives_when_it_wakes(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        TRAINING, "--", "--pause", "0.01", "--hold", str(hold), "--losses", str(losses)
    )
    sidecar = launcher.sidecar()["pid"]
    eventually(lambda: "traceml_last_step_timestamp_seconds{" in launcher.metrics())
    os.kill(sidecar, signal.SIGSTOP)
    hold.unlink()
    # The training ends while the sidecar is still stopped.
    eventually(lambda: losses.with_suffix(".0").exists())
    os.kill(sidecar, signal.SIGCONT)
    finished = launcher.finish(process)
    assert finished.exit_code == 0
    assert finished.stdout == "rank 0 done, terminal: False\n"
    trained = len(losses.with_suffix(".0").read_text().splitlines())
    assert finished.summary["step_time"]["steps"]["completed"] == trained


@pytest.mark.parametrize("support", [None, "0", "1"])
def test_workers_by_fork_neither_hang_nor_print_nor_lose_records(
    launcher: Launcher, support: str | None
) -> None:
    environment = {"PYTHONWARNINGS": "ignore"}  # torch's own, about so many workers
    if support is not None:
        environment["GRPC_ENABLE_FORK_SUPPORT"] = support
    finished = launcher.run(str(SCRIPTS / "workers.py"), "--", "6", environment=environment)
    assert finished.exit_code == 0
    assert finished.stdout == "done\n"
    assert finished.summary["telemetry"]["records_received"] == 60
    assert finished.summary["telemetry"]["records_dropped"] == 0
    before_the_summary = finished.stderr.split("\nTraceML  test")[0]
    assert len(before_the_summary.splitlines()) == 1, before_the_summary


def test_without_an_endpoint_training_just_runs(launcher: Launcher) -> None:
    process = launcher.popen([sys.executable, TRAINING], {"TRACEML_ENDPOINT": ""})
    finished = launcher.finish(process)
    assert (finished.exit_code, finished.stderr) == (0, "")


def test_an_endpoint_where_nobody_listens_changes_nothing(launcher: Launcher) -> None:
    environment = {"TRACEML_ENDPOINT": f"unix://{launcher.folder}/nobody.sock"}
    finished = launcher.finish(launcher.popen([sys.executable, TRAINING], environment))
    assert (finished.exit_code, finished.stderr) == (0, "")

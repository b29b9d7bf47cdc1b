"""Cleaners of /tmp take the socket's folder away while a run is under way: no step is lost."""

import shutil
from functools import partial
from pathlib import Path

from tests.launching import SCRIPTS, Launcher, eventually

TRAINING = str(SCRIPTS / "training.py")
ONE_AFTER_THE_OTHER = """
import subprocess, sys
training, *names = sys.argv[1:]
for name in names:
    flags = ["--pause", "0.002", "--hold", f"{name}.hold", "--losses", name]
    subprocess.run([sys.executable, training, *flags], check=True)
"""


def completed_beyond(launcher: Launcher, before: int) -> bool:
    return launcher.completed() > before + 20


def test_a_folder_removed_in_a_run_and_once_more_with_the_sidecar_s_death_costs_no_step(
    launcher: Launcher, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(ONE_AFTER_THE_OTHER)
    names = [tmp_path / "first", tmp_path / "second"]
    for name in names:
        name.with_suffix(".hold").touch()
    run = launcher.start(str(script), "--", TRAINING, *map(str, names))
    eventually(lambda: launcher.completed() > 20)
    socket = Path(launcher.sidecar()["endpoint"].removeprefix("unix://"))
    shutil.rmtree(socket.parent)
    eventually(socket.is_socket)
    names[0].with_suffix(".hold").unlink()
    eventually(names[0].with_suffix(".0").exists)
    eventually(partial(completed_beyond, launcher, launcher.completed()))  # the second training
    shutil.rmtree(socket.parent)
    launcher.kill_sidecar()
    eventually(partial(completed_beyond, launcher, launcher.completed()))
    names[1].with_suffix(".hold").unlink()
    finished = launcher.finish(run)
    assert finished.exit_code == 0
    trained = sum(len(name.with_suffix(".0").read_text().splitlines()) for name in names)
    assert finished.summary["step_time"]["steps"]["completed"] == trained
    assert finished.summary["telemetry"]["records_dropped"] == 0
    assert not socket.parent.exists()

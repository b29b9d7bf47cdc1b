"""However a run ends, its exit code, its output and its summary come through."""

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.launching import SCRIPTS, Launcher, eventually, is_running

TRAINING = str(SCRIPTS / "training.py")


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("end", "exit_code", "tracebacks"), [("exit3", 3, 0), ("raise", 1, 1), ("kill", 137, 0)]
)
def test_a_failing_script_s_exit_code_comes_through_and_the_summary_is_written(
    launcher: Launcher, processes: int, end: str, exit_code: int, tracebacks: int
) -> None:
    finished = launcher.run(
        f"--nproc-per-node={processes}", TRAINING, "--", "--pause", "0.02", "--end", end
    )
    run = finished.summary["run"]
    assert (finished.exit_code, run["exit_code"]) == (exit_code, exit_code)
    assert run["status"] == "failed"
    assert finished.stderr.count("ValueError: the user's own mistake") == tracebacks
    assert "ChildFailedError" not in finished.stderr
    assert finished.summary["step_time"]["steps"]["completed"] > 5


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_reaches_the_script_once(
    launcher: Launcher, tmp_path: Path, processes: int, number: int, exit_code: int
) -> None:
    process = launcher.start(
        f"--nproc-per-node={processes}", TRAINING, "--", "--pause", "0.01", "--hold", str(tmp_path)
    )
    eventually(lambda: launcher.completed() > 20)
    process.send_signal(number)
    finished = launcher.finish(process)
    assert finished.exit_code == exit_code
    assert finished.summary["run"]["status"] == "interrupted"
    assert finished.stderr.count("\nKeyboardInterrupt") <= processes
    assert finished.summary["step_time"]["steps"]["completed"] > 20


def test_the_terminal_s_ctrl_c_interrupts_once_and_a_tty_stays_a_tty(
    launcher: Launcher, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        launcher.command("run", "--run-name", "test", "--metrics-port", "0", TRAINING,
                         "--", "--pause", "0.01", "--hold", str(hold)),
        cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: take_terminal(terminal),
    )  # fmt: skip
    os.close(terminal)
    eventually(lambda: launcher.completed() > 20)
    os.write(controller, b"\x03")
    printed = read_all(controller)
    assert process.wait(30) == 130
    assert printed.count("KeyboardInterrupt") == 1
    assert "interrupted, exit code 130" in printed


def test_stdout_of_a_terminal_is_the_script_s(launcher: Launcher, tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        launcher.command("run", "--run-name", "test", "--metrics-port", "0", TRAINING),
        cwd=tmp_path, stdout=terminal, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(terminal)
    printed = read_all(controller)
    process.communicate()
    assert printed.strip() == "rank 0 done, terminal: True"


def test_stdout_and_stderr_stay_separate(launcher: Launcher) -> None:
    finished = launcher.run(TRAINING)
    assert finished.stdout == "rank 0 done, terminal: False\n"
    assert "TraceML  test  completed, exit code 0" in finished.stderr


def test_a_sidecar_whose_launcher_was_killed_serves_on_and_ends_with_the_ranks(
    launcher: Launcher, tmp_path: Path
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    eventually(lambda: launcher.completed() > 20)
    process.kill()
    process.wait()
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before + 20)
    sidecar = launcher.sidecar()
    hold.unlink()
    eventually(lambda: (launcher.run_directory / "final_summary.json").exists())
    finished = launcher.finish(process)
    assert finished.summary["run"]["status"] == "interrupted"
    assert finished.summary["step_time"]["steps"]["completed"] > before + 20
    eventually(lambda: not is_running(sidecar["pid"]))
    assert not Path(sidecar["endpoint"].removeprefix("unix://")).parent.exists()


def take_terminal(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def read_all(controller: int) -> str:
    printed = b""
    while True:
        try:
            part = os.read(controller, 4096)
        except OSError:  # how a terminal says that nobody is left
            return printed.decode()
        if not part:
            return printed.decode()
        printed += part

"""Every signal that a plain script would get, the script gets, once; the others outlive it."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.end_to_end.test_endings import take_terminal
from tests.launching import SCRIPTS, Launcher, eventually, is_running

CATCHING = str(SCRIPTS / "catching.py")
SENT = sorted(
    {
        signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1,
        signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM, signal.SIGCONT, signal.SIGXCPU,
        signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGSEGV,
        signal.SIGRTMIN, signal.SIGRTMAX,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Catching:
    """A run whose script writes down what it catches."""

    launcher: Launcher
    process: "subprocess.Popen[Any]"
    folder: Path

    @property
    def script(self) -> int:
        return int((self.folder / "ready").read_text())

    def caught(self) -> list[int]:
        file = self.folder / "caught"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def has_caught(self, number: int) -> bool:
        return len(self.caught()) >= number

    def is_settled(self) -> bool:
        """Whether the launcher is done with what was sent before: nothing waits anywhere."""
        launcher = psutil.Process(self.process.pid)
        family = (launcher, *launcher.children(recursive=True))
        statuses = [Path(f"/proc/{each.pid}/status").read_text() for each in family]
        return len(family) == 4 and all("ShdPnd:\t0000000000000000" in each for each in statuses)

    def finish(self) -> int:
        (self.folder / "over").touch()
        return self.launcher.finish(self.process).exit_code


@pytest.fixture
def catching(launcher: Launcher, tmp_path: Path) -> Catching:
    files = [str(tmp_path / name) for name in ("caught", "ready", "over")]
    process = launcher.start(CATCHING, "--", *files)
    eventually(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text())
    launcher.sidecar()
    return Catching(launcher, process, tmp_path)


def to_launcher(run: Catching, number: int) -> None:
    os.kill(run.process.pid, number)


def to_group(run: Catching, number: int) -> None:
    os.killpg(os.getpgid(run.script), number)


def to_all(run: Catching, number: int) -> None:
    """As a scheduler does: one after the other."""
    launcher = psutil.Process(run.process.pid)
    for process in (launcher, *launcher.children(recursive=True)):
        os.kill(process.pid, number)


@pytest.mark.parametrize("send", [to_launcher, to_group, to_all])
def test_each_signal_reaches_the_script_once_and_ends_nobody_else(
    catching: Catching, send: Callable[[Catching, int], None]
) -> None:
    sidecar = catching.launcher.sidecar()["pid"]
    for sent, number in enumerate(SENT, 1):
        eventually(catching.is_settled)  # launcher, script, sidecar and witness
        send(catching, number)
        eventually(partial(catching.has_caught, sent))
        assert is_running(catching.process.pid)
        assert is_running(sidecar)
    assert catching.finish() == 0
    assert sorted(catching.caught()) == SENT


def test_the_same_signal_can_be_sent_again_and_in_another_way(catching: Catching) -> None:
    ways = [to_launcher, to_group, to_launcher, to_group, to_all, to_launcher]
    for sent, send in enumerate(ways, 1):
        eventually(catching.is_settled)
        send(catching, signal.SIGUSR1)
        eventually(partial(catching.has_caught, sent))
    assert catching.finish() == 0
    assert catching.caught() == [signal.SIGUSR1] * len(ways)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM])
def test_a_signal_that_ends_the_script_leaves_its_exit_code_and_a_summary(
    launcher: Launcher, tmp_path: Path, number: signal.Signals
) -> None:
    script, ready = tmp_path / "asleep.py", tmp_path / "ready"
    script.write_text(
        "import time, pathlib\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(600)\n"
    )  # fmt: skip
    process = launcher.start(str(script))
    eventually(ready.exists)
    process.send_signal(number)
    finished = launcher.finish(process)
    assert (finished.exit_code, finished.summary["run"]["exit_code"]) == (128 + number,) * 2


def test_the_script_ends_with_the_terminal_it_runs_in(launcher: Launcher, tmp_path: Path) -> None:
    """The kernel tells the leader of the session alone, which is the launcher here."""
    controller, terminal = pty.openpty()
    files = [str(tmp_path / name) for name in ("caught", "ready", "over")]
    process = subprocess.Popen(
        launcher.command("run", "--run-name", "test", "--metrics-port", "0", CATCHING,
                         "--", *files),
        cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: take_terminal(terminal),
    )  # fmt: skip
    os.close(terminal)
    run = Catching(launcher, process, tmp_path)
    eventually(lambda: (tmp_path / "ready").exists() and (tmp_path / "ready").read_text())
    os.close(controller)
    eventually(lambda: signal.SIGHUP in run.caught())
    (tmp_path / "over").touch()
    assert process.wait(60) == 0
    assert run.caught().count(signal.SIGHUP) == 1


def test_a_job_is_stopped_and_goes_on_as_a_whole(launcher: Launcher, tmp_path: Path) -> None:
    script, ready, over = tmp_path / "asleep.py", tmp_path / "ready", tmp_path / "over"
    script.write_text(
        "import os, time, pathlib\n"
        f"pathlib.Path({str(ready)!r}).write_text(str(os.getpid()))\n"
        f"while not pathlib.Path({str(over)!r}).exists(): time.sleep(0.02)\n"
    )
    process = subprocess.Popen(
        launcher.command("run", "--run-name", "test", "--metrics-port", "0", str(script)),
        cwd=tmp_path,
        preexec_fn=os.setpgrp,  # in a session of its own the kernel would stop nobody
    )
    eventually(lambda: ready.exists() and ready.read_text())
    both = [psutil.Process(process.pid), psutil.Process(int(ready.read_text()))]
    process.send_signal(signal.SIGTSTP)
    eventually(lambda: all(each.status() == psutil.STATUS_STOPPED for each in both))
    process.send_signal(signal.SIGCONT)
    eventually(lambda: all(each.status() != psutil.STATUS_STOPPED for each in both))
    over.touch()
    assert process.wait(60) == 0


def test_a_sidecar_alone_outlives_what_is_meant_for_the_training(launcher: Launcher) -> None:
    sidecar = launcher.start_sidecar()
    eventually(launcher.metrics)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGRTMIN):
        sidecar.send_signal(number)
    eventually(launcher.metrics)
    assert sidecar.poll() is None
    sidecar.send_signal(signal.SIGHUP)
    assert launcher.finish(sidecar).summary["run"]["status"] == "interrupted"

"""Whoever takes file descriptors from a sidecar takes neither its scrapers nor its figures."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.descriptors import descriptors_left, limited
from tests.launching import SCRIPTS, Launcher, eventually

TRAINING = str(SCRIPTS / "training.py")
LIMIT = 400
IDLE = 2 * LIMIT
OF_THE_SAMPLER = ("pynvml", "ctypes.util")  # which tries again
MEMORY = 'traceml_host_memory_used_bytes{run="test"}'


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def hold_idle(held: ExitStack, launcher: Launcher) -> None:
    """Open more connections than the sidecar may have descriptors."""
    for _ in range(IDLE):
        held.enter_context(socket.create_connection(port_of(launcher), timeout=30))


def port_of(launcher: Launcher) -> tuple[str, int]:
    served = urlsplit(launcher.sidecar()["metrics"])
    assert served.hostname is not None
    assert served.port is not None
    return served.hostname, served.port


def log_of(launcher: Launcher) -> str:
    return (launcher.run_directory / "sidecar.log").read_text()


def test_a_sidecar_with_more_idle_connections_than_descriptors_is_scraped_and_ends_well(
    launcher: Launcher, held: ExitStack
) -> None:
    own = ("--run-name", "test", "--metrics-port", "0", "--linger", "0")
    sidecar = launcher.popen(limited(launcher.command("sidecar", *own), LIMIT))
    pid = launcher.sidecar()["pid"]
    eventually(launcher.metrics)
    hold_idle(held, launcher)
    before = launcher.value(MEMORY)
    eventually(lambda: launcher.value(MEMORY) != before)
    assert (sidecar.pid, sidecar.poll()) == (pid, None)
    sidecar.send_signal(signal.SIGTERM)
    finished = launcher.finish(sidecar)
    assert finished.exit_code == 0
    assert finished.summary["run"]["status"] == "interrupted"
    assert "Too many open files" not in log_of(launcher)


def test_ranks_report_and_lose_nothing_while_idle_connections_are_held(
    launcher: Launcher, held: ExitStack, hold: Path
) -> None:
    own = ("--run-name", "test", "--metrics-port", "0")
    command = launcher.command("run", *own, TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    command = ["sh", "-c", 'exec "$@" 2> /dev/null', "sh", *command]  # all that is imported
    run = launcher.popen(limited(command, LIMIT), {"PYTHONPROFILEIMPORTTIME": "1"})
    pid = launcher.sidecar()["pid"]
    hold_idle(held, launcher)  # before the rank says hello
    eventually(lambda: launcher.completed() > 40)
    assert launcher.sidecar()["pid"] == pid
    hold.unlink()
    finished = launcher.finish(run)
    assert finished.exit_code == 0
    assert finished.summary["telemetry"]["sidecar_restarts"] == 0
    assert finished.summary["telemetry"]["records_dropped"] == 0
    assert imported_late(launcher) == []


def imported_late(launcher: Launcher) -> list[str]:
    """What the sidecar has loaded since it answers, and could not have without descriptors."""
    _, _, since = log_of(launcher).partition("INFO run test reports to ")
    assert since
    late = [line.split()[-1] for line in since.splitlines() if line.startswith("import time:")]
    return [name for name in late if name not in OF_THE_SAMPLER]


def test_descriptors_that_are_gone_for_a_while_cost_samples_and_nothing_more(
    launcher: Launcher, tmp_path: Path
) -> None:
    targets = tmp_path / "targets.json"
    sidecar = launcher.start_sidecar("--sd-file", str(targets))
    pid = launcher.sidecar()["pid"]
    eventually(lambda: launcher.value(MEMORY))
    with descriptors_left(0, pid):
        eventually(lambda: "cannot look at the host" in log_of(launcher))
    before = launcher.value(MEMORY)
    eventually(lambda: launcher.value(MEMORY) != before)
    sidecar.send_signal(signal.SIGTERM)
    assert launcher.finish(sidecar).exit_code == 0
    assert not targets.exists()


def test_a_summary_that_cannot_be_written_for_want_of_descriptors_is_written_later(
    launcher: Launcher,
) -> None:
    sidecar = launcher.start_sidecar()
    pid = launcher.sidecar()["pid"]
    eventually(launcher.metrics)
    with descriptors_left(0, pid):
        sidecar.send_signal(signal.SIGTERM)
        eventually(lambda: "tried again for 3 s: [Errno 24]" in log_of(launcher))
    finished = launcher.finish(sidecar)
    assert finished.exit_code == 0
    assert "could not be written" not in finished.stderr
    assert finished.summary["run"]["status"] == "interrupted"

"""`traceml sidecar` beside a script that something else started."""

import signal
import sys

from tests.launching import SCRIPTS, Launcher, eventually

TRAINING = str(SCRIPTS / "training.py")


def test_a_sidecar_on_its_own_serves_a_script_that_finds_its_endpoint(launcher: Launcher) -> None:
    sidecar = launcher.popen(
        launcher.command("sidecar", "--run-name", "test", "--metrics-port", "0")
    )
    endpoint = launcher.sidecar()["endpoint"]
    training = launcher.popen([sys.executable, TRAINING], {"TRACEML_ENDPOINT": endpoint})
    assert launcher.finish(training).exit_code == 0
    eventually(lambda: 'traceml_steps_completed_total{run="test"} 40.0' in launcher.metrics())
    sidecar.send_signal(signal.SIGTERM)
    finished = launcher.finish(sidecar)
    assert finished.exit_code == 0
    assert f"traceml env {endpoint}" in finished.stderr
    assert "40 steps completed" in finished.stderr
    assert finished.summary["run"]["status"] == "completed"


def test_a_script_started_again_is_a_new_attempt_with_counters_that_go_on(
    launcher: Launcher,
) -> None:
    sidecar = launcher.popen(
        launcher.command("sidecar", "--run-name", "test", "--metrics-port", "0")
    )
    environment = {"TRACEML_ENDPOINT": launcher.sidecar()["endpoint"]}
    for _ in range(2):
        training = launcher.popen([sys.executable, TRAINING], environment)
        assert launcher.finish(training).exit_code == 0
    sidecar.send_signal(signal.SIGINT)
    steps = launcher.finish(sidecar).summary["step_time"]["steps"]
    assert steps == {"completed": 80, "incomplete": 0, "excluded": {"warmup": 2}}


def test_a_socket_that_is_served_already_is_not_taken_over(launcher: Launcher) -> None:
    socket = f"unix://{launcher.folder}/s.sock"
    command = launcher.command(
        "sidecar", "--run-name", "test", "--metrics-port", "0", "--listen", socket
    )
    first = launcher.popen(command)
    launcher.sidecar()
    second = launcher.finish(launcher.popen(command))
    assert second.exit_code == 73
    assert "another sidecar does" in second.stderr
    first.terminate()
    assert launcher.finish(first).exit_code == 0


def test_when_all_ranks_have_left_none_is_missing(launcher: Launcher) -> None:
    launcher.popen(launcher.command("sidecar", "--run-name", "test", "--metrics-port", "0"))
    endpoint = launcher.sidecar()["endpoint"]
    training = launcher.popen([sys.executable, TRAINING], {"TRACEML_ENDPOINT": endpoint})
    assert launcher.finish(training).exit_code == 0
    eventually(lambda: 'traceml_ranks_expected{run="test"} 0.0' in launcher.metrics())

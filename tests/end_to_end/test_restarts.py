"""A sidecar that dies, once or often, alone or with its launcher: no step is lost or told twice."""

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

from tests.launching import SCRIPTS, Launcher, eventually, is_running
from tests.ranks import Rank

TRAINING = str(SCRIPTS / "training.py")


def completed_beyond(launcher: Launcher, before: int) -> int:
    now = launcher.completed()
    return now if now > before else 0


def trained(losses: Path) -> int:
    return len(losses.with_suffix(".0").read_text().splitlines())


def test_three_deaths_in_one_run_lose_no_step_and_tell_none_twice(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        "--nproc-per-node=2", TRAINING,
        "--", "--pause", "0.005", "--hold", str(hold), "--losses", str(losses),
        environment={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    eventually(lambda: launcher.completed() > 20)
    seen = 0
    for _ in range(3):
        time.sleep(random.uniform(0.0, 1.0))  # any moment is as good as another
        launcher.kill_sidecar()
        # What was counted is not taken back, or rates would leap.
        after = eventually(launcher.completed)
        assert after >= seen
        seen = eventually(partial(completed_beyond, launcher, after))
    assert launcher.value('traceml_sidecar_restarts_total{run="test"}') == 3.0
    hold.unlink()
    finished = launcher.finish(process)
    assert finished.exit_code == 0
    steps, telemetry = finished.summary["step_time"]["steps"], finished.summary["telemetry"]
    assert (steps["completed"], steps["incomplete"]) == (trained(losses), 0)
    assert (telemetry["records_received"], telemetry["records_dropped"]) == (2 * trained(losses), 0)
    assert telemetry["sidecar_restarts"] == 3
    before_the_summary = finished.stderr.split("\nTraceML  test")[0].splitlines()
    assert (
        before_the_summary[1:] == ["traceml: the sidecar died (signal 9) and is started again"] * 3
    )


def test_a_sidecar_that_dies_as_the_training_ends_costs_nothing(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        TRAINING, "--", "--pause", "0.002", "--hold", str(hold), "--losses", str(losses)
    )
    eventually(lambda: launcher.completed() > 20)
    hold.unlink()
    os.kill(launcher.sidecar()["pid"], signal.SIGKILL)
    finished = launcher.finish(process)
    assert (finished.exit_code, finished.stdout) == (0, "rank 0 done, terminal: False\n")
    assert "Traceback" not in finished.stderr
    assert finished.summary["run"]["status"] == "completed"
    assert finished.summary["step_time"]["steps"]["completed"] == trained(losses)
    assert finished.ranks[0]["left_in_good_order"]


def test_a_sidecar_that_keeps_dying_is_given_up_and_the_launcher_writes_the_summary(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        TRAINING, "--", "--pause", "0.01", "--hold", str(hold), "--losses", str(losses)
    )
    eventually(lambda: launcher.completed() > 5)
    for _ in range(5):
        launcher.kill_sidecar()
    last = launcher.sidecar()["pid"]
    os.kill(last, signal.SIGKILL)
    eventually(lambda: not is_running(last))
    hold.unlink()
    finished = launcher.finish(process)
    assert finished.exit_code == 0
    assert "for the 6th time and is not started again" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.summary["step_time"]["steps"]["completed"] == trained(losses)
    assert finished.summary["telemetry"]["sidecar_restarts"] == 5


def test_after_the_death_of_sidecar_and_launcher_all_that_was_acknowledged_can_be_summarized(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    eventually(lambda: launcher.completed() > 30)
    acknowledged = launcher.completed()
    process.kill()
    os.kill(launcher.sidecar()["pid"], signal.SIGKILL)
    process.wait()
    assert not (launcher.run_directory / "final_summary.json").exists()
    finished = launcher.call("summarize", str(launcher.run_directory))
    assert finished.exit_code == 0
    assert finished.summary["run"]["status"] == "interrupted"
    completed = finished.summary["step_time"]["steps"]["completed"]
    assert completed >= acknowledged
    assert f"{completed} steps completed" in finished.stdout
    assert "Rebuilt from the journal: covers the run up to " in finished.stdout
    # The training went on without us; what it told nobody is left beside the socket.
    hold.unlink()
    socket = Path(launcher.sidecar()["endpoint"].removeprefix("unix://"))
    eventually(lambda: list(socket.parent.glob("*.left")))
    again = launcher.call("summarize", str(launcher.run_directory)).summary
    assert again["step_time"]["steps"]["completed"] > completed
    assert again["ranks"][0]["left_in_good_order"]
    assert again["telemetry"]["records_dropped"] == 0


def test_a_sidecar_alone_that_is_started_again_goes_on(launcher: Launcher) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    endpoint = launcher.sidecar()["endpoint"]
    with Rank(endpoint, 0, 2) as rank, Rank(endpoint, 1, 2) as other:
        for of in (rank, other):
            of.train(100)
        eventually(lambda: launcher.completed() == 100)
        first.kill()
        first.wait()
        for of in (rank, other):
            of.train(50)
        eventually(lambda: rank.sender._failures > 0)
        second = launcher.start_sidecar(*listen)
        eventually(lambda: launcher.completed() == 150)
        assert launcher.value('traceml_sidecar_restarts_total{run="test"}') == 1.0
    second.terminate()
    finished = launcher.finish(second)
    assert "run test goes on after 100 steps" in finished.stderr
    assert finished.summary["telemetry"]["records_received"] == 300
    assert finished.summary["telemetry"]["records_dropped"] == 0
    assert not (launcher.run_directory.parent / "test-2").exists()


def test_a_sidecar_that_is_told_to_stop_and_started_again_goes_on_too(launcher: Launcher) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(100)
        eventually(lambda: launcher.completed() == 100)
        first.terminate()  # as systemd does to restart it
        stopped = launcher.finish(first)
        assert stopped.summary["run"]["status"] == "interrupted"
        rank.train(50)
        second = launcher.start_sidecar(*listen)
        eventually(lambda: launcher.completed() == 150)
    second.terminate()
    finished = launcher.finish(second)
    assert "run test goes on after 100 steps" in finished.stderr
    assert finished.summary["run"]["status"] == "completed"
    assert finished.summary["telemetry"]["records_dropped"] == 0


def test_a_second_sidecar_by_mistake_leaves_no_trace_and_the_first_can_go_on(
    launcher: Launcher,
) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(10)
        eventually(lambda: launcher.completed() == 10)
        mistaken = launcher.finish(launcher.start_sidecar(*listen))
        assert mistaken.exit_code == 73
        assert len(mistaken.stderr.splitlines()) == 1
        assert not (launcher.run_directory.parent / "test-2").exists()
        first.kill()
        first.wait()
        launcher.start_sidecar(*listen)
        rank.train(5)
        eventually(lambda: launcher.completed() == 15)


def test_a_launcher_killed_while_the_script_still_imports_does_not_cost_the_run(
    launcher: Launcher, tmp_path: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(TRAINING, "--", "--losses", str(losses))
    launcher.sidecar()
    process.kill()
    process.wait()
    summary = launcher.run_directory / "final_summary.json"
    eventually(summary.exists)
    completed = json.loads(summary.read_text())["step_time"]["steps"]["completed"]
    assert completed == trained(losses) == 40


def test_a_run_that_was_ended_is_not_gone_on_with(launcher: Launcher) -> None:
    first = launcher.start_sidecar()
    launcher.sidecar()
    first.terminate()
    launcher.finish(first)
    second = launcher.start_sidecar()
    eventually((launcher.run_directory.parent / "test-2" / "sidecar.json").exists)
    second.terminate()
    assert "goes on" not in launcher.finish(second).stderr


def test_what_a_rank_left_while_nobody_answered_is_taken_by_the_next_sidecar(
    launcher: Launcher,
) -> None:
    listen = ("--listen", f"unix://{launcher.folder}/s.sock")
    first = launcher.start_sidecar(*listen)
    rank = Rank(launcher.sidecar()["endpoint"])
    rank.train(10)
    eventually(lambda: launcher.completed() == 10)
    first.kill()
    first.wait()
    rank.train(7)
    rank.close()
    assert len(list(launcher.folder.glob("s.sock.*.left"))) == 1
    second = launcher.start_sidecar(*listen)
    eventually(lambda: launcher.completed() == 17)
    eventually(lambda: not list(launcher.folder.glob("s.sock.*.left")))
    second.terminate()
    finished = launcher.finish(second)
    assert finished.summary["run"]["status"] == "completed"
    assert finished.ranks[0]["left_in_good_order"]


def test_sigterm_to_a_launched_sidecar_does_not_end_the_run(
    launcher: Launcher, hold: Path, tmp_path: Path
) -> None:
    losses = tmp_path / "losses"
    process = launcher.start(
        TRAINING, "--", "--pause", "0.01", "--hold", str(hold), "--losses", str(losses)
    )
    eventually(lambda: launcher.completed() > 5)
    os.kill(launcher.sidecar()["pid"], signal.SIGTERM)
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before + 20)
    hold.unlink()
    finished = launcher.finish(process)
    assert finished.summary["run"]["status"] == "completed"
    assert finished.summary["step_time"]["steps"]["completed"] == trained(losses)


def test_the_sidecar_s_description_is_of_the_one_that_serves(
    launcher: Launcher, hold: Path
) -> None:
    launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    eventually(launcher.completed)
    before = launcher.sidecar()
    launcher.kill_sidecar()
    after = json.loads((launcher.run_directory / "sidecar.json").read_text())
    assert after["metrics"] == before["metrics"]
    assert after["endpoint"] == before["endpoint"]
    assert sys.executable in (Path("/proc") / str(after["pid"]) / "cmdline").read_text()

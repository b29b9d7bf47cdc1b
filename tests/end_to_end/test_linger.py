"""The last values of a run are scraped, and then nothing of it stays."""

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import require_program
from tests.launching import SCRIPTS, Launcher, eventually, fetch, is_running
from tests.prometheus import discovered, fixed, query, running
from traceml.sidecar.listen import bind

TRAINING = str(SCRIPTS / "training.py")
SCRAPER = {"X-Prometheus-Scrape-Timeout-Seconds": "5", "User-Agent": "Prometheus/2"}


def free_port() -> int:
    with bind("127.0.0.1", 0) as free:
        port: int = free.getsockname()[1]
    return port


def test_a_run_shorter_than_the_scrape_interval_is_in_prometheus_with_its_end(
    launcher: Launcher, tmp_path: Path, prometheus: str
) -> None:
    targets = tmp_path / "targets.json"
    with running(prometheus, tmp_path, discovered(targets), interval=15) as server:
        finished = launcher.run("--sd-file", str(targets), TRAINING)
        assert finished.exit_code == 0
        pid = json.loads((finished.directory / "sidecar.json").read_text())["pid"]
        (completed,) = eventually(
            lambda: query(server, "last_over_time(traceml_steps_completed_total[5m]) == 40")
        )
        assert completed["metric"]["run"] == "test"
        state = 'last_over_time(traceml_run_state{state="completed"}[5m]) == 1'
        assert eventually(lambda: query(server, state))
        eventually(lambda: not is_running(pid))
    assert not targets.exists()


def test_a_scraper_that_was_seen_is_waited_for_and_its_last_visit_ends_it(
    launcher: Launcher, tmp_path: Path, prometheus: str, hold: Path
) -> None:
    port = free_port()
    with running(prometheus, tmp_path, fixed(port), interval=3) as server:
        process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold), port=port)
        eventually(lambda: query(server, "traceml_steps_completed_total > 5"))
        pid = launcher.sidecar()["pid"]
        hold.unlink()
        finished = launcher.finish(process)
        steps = finished.summary["step_time"]["steps"]["completed"]
        last = f"last_over_time(traceml_steps_completed_total[5m]) == {steps}"
        eventually(lambda: query(server, last))
        eventually(lambda: not is_running(pid))


def test_a_run_that_nobody_scrapes_is_gone_when_it_ends(launcher: Launcher) -> None:
    finished = launcher.run(TRAINING)
    pid = json.loads((finished.directory / "sidecar.json").read_text())["pid"]
    eventually(lambda: not is_running(pid), seconds=30)


def test_who_looks_once_by_hand_is_not_waited_for_and_who_keeps_looking_is(
    launcher: Launcher, hold: Path
) -> None:
    process = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    pid = launcher.sidecar()["pid"]
    eventually(launcher.metrics)
    launcher.metrics()  # for the second time at least
    fetch(launcher.sidecar()["metrics"], {"User-Agent": "someone else, once"})
    hold.unlink()
    launcher.finish(process)
    assert is_running(pid)
    launcher.metrics()
    eventually(lambda: not is_running(pid), seconds=30)


def test_a_new_run_on_the_port_ends_one_that_only_lingers(launcher: Launcher, hold: Path) -> None:
    port, targets = free_port(), launcher.folder / "targets.json"
    arguments = ("--sd-file", str(targets), TRAINING, "--", "--pause", "0.01", "--hold", str(hold))
    first = launcher.start(*arguments, port=port)
    pid = launcher.sidecar()["pid"]
    eventually(lambda: fetch(launcher.sidecar()["metrics"], SCRAPER))
    hold.unlink()
    launcher.finish(first)
    assert is_running(pid)
    assert 'traceml_run_state{run="test",state="completed"} 1.0' in launcher.metrics()
    hold.touch()
    second = launcher.start(*arguments, port=port)
    eventually(lambda: not is_running(pid))
    served = launcher.run_directory.parent / "test-2" / "sidecar.json"
    eventually(served.exists)
    assert f":{port}/" in json.loads(served.read_text())["metrics"]
    assert str(port) in eventually(targets.read_text)  # the new run's own
    hold.unlink()
    assert launcher.finish(second).exit_code == 0


def test_a_run_that_is_under_way_does_not_make_way(launcher: Launcher, hold: Path) -> None:
    port = free_port()
    first = launcher.start(TRAINING, "--", "--pause", "0.01", "--hold", str(hold), port=port)
    eventually(launcher.metrics)
    second = launcher.finish(launcher.start(TRAINING, port=port))
    assert second.exit_code == 0
    assert f"http://127.0.0.1:{port}/" not in second.stderr
    before = launcher.completed()
    eventually(lambda: launcher.completed() > before)
    hold.unlink()
    assert launcher.finish(first).exit_code == 0


def test_linger_0_waits_for_nobody_and_the_announcement_is_gone(
    launcher: Launcher, tmp_path: Path, hold: Path
) -> None:
    targets = tmp_path / "targets.json"
    process = launcher.start(
        "--linger=0", "--sd-file", str(targets), TRAINING, "--", "--hold", str(hold)
    )
    eventually(targets.exists)
    host_and_port = launcher.sidecar()["metrics"].split("/")[2]
    assert json.loads(targets.read_text()) == [{"targets": [host_and_port], "labels": {}}]
    hold.unlink()
    launcher.finish(process)
    eventually(lambda: not targets.exists(), seconds=30)


def test_a_run_can_wait_for_its_last_scrape_where_what_it_leaves_is_killed(
    launcher: Launcher, tmp_path: Path
) -> None:
    targets = tmp_path / "targets.json"
    process = launcher.start("--wait", "--linger=600", "--sd-file", str(targets), TRAINING)
    eventually((launcher.run_directory / "final_summary.json").exists)
    assert process.poll() is None
    assert targets.exists()
    served = launcher.sidecar()["metrics"]

    def has_ended_after_a_scrape() -> bool:
        with suppress(OSError):
            fetch(served, SCRAPER)
        return process.poll() is not None

    eventually(has_ended_after_a_scrape)
    finished = launcher.finish(process)
    assert (finished.exit_code, finished.summary["run"]["status"]) == (0, "completed")
    assert not targets.exists()


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_told_to_stop_while_it_waits_ends_as_its_script_did(
    launcher: Launcher, told: signal.Signals
) -> None:
    process = launcher.start("--wait", "--linger=600", TRAINING)
    eventually((launcher.run_directory / "final_summary.json").exists)
    process.send_signal(told)
    assert launcher.finish(process).exit_code == 0


def test_a_sidecar_alone_lingers_too_and_a_second_signal_ends_that(launcher: Launcher) -> None:
    sidecar = launcher.start_sidecar("--linger=600")
    launcher.sidecar()
    eventually(launcher.metrics)
    sidecar.terminate()
    eventually(lambda: 'state="interrupted"} 1.0' in launcher.metrics())
    eventually((launcher.run_directory / "final_summary.json").exists)
    sidecar.terminate()
    assert launcher.finish(sidecar).exit_code == 0


def test_the_final_state_can_be_read_by_node_exporter(launcher: Launcher, tmp_path: Path) -> None:
    exporter = require_program("prometheus-node-exporter")
    folder = tmp_path / "textfiles"
    folder.mkdir()
    finished = launcher.run(f"--textfile-dir={folder}", TRAINING)
    assert finished.exit_code == 0
    port = free_port()
    process = subprocess.Popen(
        [exporter, f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults",
         "--collector.textfile", f"--collector.textfile.directory={folder}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        text = eventually(lambda: fetch(f"http://127.0.0.1:{port}/metrics"))
    finally:
        process.terminate()
        process.wait()
    assert 'traceml_steps_completed_total{run="test"} 40' in text
    assert 'traceml_run_state{run="test",state="completed"} 1' in text
    assert "node_textfile_scrape_error 0" in text

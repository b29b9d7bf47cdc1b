import json
import shutil
from pathlib import Path

import pytest

from tests.launching import Launcher, eventually
from tests.ranks import Rank


@pytest.fixture
def finished_run(launcher: Launcher) -> Path:
    """A run of 30 steps that was ended in good order."""
    sidecar = launcher.start_sidecar()
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(30)
        eventually(lambda: launcher.completed() == 30)
    sidecar.terminate()
    assert launcher.finish(sidecar).exit_code == 0
    return launcher.run_directory


def test_a_finished_run_is_summarized_as_its_sidecar_did(
    launcher: Launcher, finished_run: Path
) -> None:
    before = json.loads((finished_run / "final_summary.json").read_text())
    (finished_run / "final_summary.json").unlink()
    text = (finished_run / "final_summary.txt").read_text()
    summarized = launcher.call("summarize", str(finished_run))
    after = summarized.summary
    assert summarized.exit_code == 0
    assert after.pop("coverage")["whole"] is True
    assert after == before
    assert summarized.stdout.startswith(text)
    assert "Rebuilt from the journal: covers the whole run." in summarized.stdout


def test_a_run_that_goes_on_can_be_summarized_and_is_not_disturbed(launcher: Launcher) -> None:
    launcher.start_sidecar()
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(30)
        eventually(lambda: launcher.completed() == 30)
        summarized = launcher.call("summarize", str(launcher.run_directory))
        assert summarized.summary["run"]["status"] == "running"
        assert summarized.summary["step_time"]["steps"]["completed"] == 30
        assert summarized.summary["coverage"]["whole"] is False
        rank.train(5)
        eventually(lambda: launcher.completed() == 35)


def test_the_parts_of_a_run_on_several_nodes_are_summarized_each(
    launcher: Launcher, finished_run: Path
) -> None:
    for node in range(2):
        shutil.copytree(finished_run, launcher.folder / "logs" / "job" / f"node-{node}")
    summarized = launcher.call("summarize", "logs/job")
    assert summarized.exit_code == 0
    assert summarized.stdout.count("30 steps completed") == 2


def test_a_damaged_journal_says_how_much_is_missing(launcher: Launcher, finished_run: Path) -> None:
    segment = max((finished_run / "journal").glob("*.segment"))
    data = segment.read_bytes()
    segment.write_bytes(data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :])
    (finished_run / "final_summary.json").unlink()
    summarized = launcher.call("summarize", str(finished_run))
    assert summarized.exit_code == 0
    assert summarized.summary["coverage"]["unread_bytes"] > 0
    assert summarized.summary["coverage"]["whole"] is False
    (problem,) = summarized.summary["coverage"]["problems"]
    assert problem.endswith(" bytes of segment 1 are damaged")
    assert "damaged" in summarized.stdout


def test_a_summary_that_tells_of_more_is_not_replaced(
    launcher: Launcher, finished_run: Path
) -> None:
    segment = max((finished_run / "journal").glob("*.segment"))
    segment.write_bytes(b"")
    summarized = launcher.call("summarize", str(finished_run))
    assert summarized.exit_code == 0
    assert "are left as they are: they tell of 30 steps" in summarized.stderr
    assert summarized.summary["step_time"]["steps"]["completed"] == 30
    assert "covers the run up to" in summarized.stdout
    assert "before its first training step" not in summarized.stdout


def test_a_run_whose_only_checkpoint_is_damaged_is_read_from_its_segments(
    launcher: Launcher, finished_run: Path
) -> None:
    checkpoint = finished_run / "journal" / "00000001.checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-10])
    summarized = launcher.call("summarize", str(finished_run))
    assert summarized.summary["step_time"]["steps"]["completed"] == 30
    assert summarized.summary["run"]["name"] == "test"
    assert "checkpoint 1 is damaged" in summarized.stdout


def test_whoever_reads_only_the_beginning_gets_no_traceback(
    launcher: Launcher, finished_run: Path
) -> None:
    command = " ".join(launcher.command("summarize", str(finished_run)))
    finished = launcher.finish(launcher.popen(["sh", "-c", f"{command} | true"]))
    assert "Traceback" not in finished.stderr


def test_a_journal_of_which_nothing_can_be_read(launcher: Launcher, finished_run: Path) -> None:
    for file in (finished_run / "journal").iterdir():
        file.write_bytes(b"nothing of ours")
    assert_error(launcher, str(finished_run), "can be read")


def test_a_folder_that_is_none(launcher: Launcher) -> None:
    assert_error(launcher, "nowhere", "no such folder: nowhere")


def test_a_folder_without_a_run(launcher: Launcher) -> None:
    assert_error(launcher, ".", "no journal of a run in .")


def assert_error(launcher: Launcher, argument: str, complaint: str) -> None:
    finished = launcher.call("summarize", argument)
    assert finished.exit_code == 66
    assert finished.stderr.startswith("traceml: error: ")
    assert complaint in finished.stderr
    assert len(finished.stderr.splitlines()) == 1

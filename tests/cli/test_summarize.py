import json
import shutil
from pathlib import Path

import pytest

from tests.builders import run_of
from tests.launching import Launcher, eventually
from tests.ranks import Rank
from traceml.cli.summarize import FORMATS
from traceml.report.writing import FORMS, write_summary


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
    written = launcher.call("summarize", str(finished_run))
    assert written.exit_code == 0
    assert "this is final_summary.json as it was written" in written.stderr
    assert "30 steps completed" in written.stdout
    (finished_run / "final_summary.json").unlink()
    assert_error(launcher, str(finished_run), "can be read")


@pytest.fixture
def kept(launcher: Launcher) -> Path:
    """A run of which only the summary is left."""
    folder = launcher.folder / "logs" / "kept"
    write_summary(run_of(2, steps=50, name="kept"), folder)
    return folder


@pytest.mark.parametrize("named", ["logs/kept", "logs/kept/final_summary.json"])
def test_a_summary_that_is_there_is_printed(launcher: Launcher, kept: Path, named: str) -> None:
    summarized = launcher.call("summarize", named)
    assert (summarized.exit_code, summarized.stderr) == (0, "")
    assert summarized.stdout.strip() == (kept / "final_summary.txt").read_text().strip()


@pytest.mark.parametrize(
    ("form", "file"), [("json", "final_summary.json"), ("html", "final_summary.html")]
)
def test_a_summary_can_be_had_in_other_forms(
    launcher: Launcher, kept: Path, form: str, file: str
) -> None:
    summarized = launcher.call("summarize", "logs/kept", "--format", form)
    assert summarized.stdout.strip() == (kept / file).read_text().strip()


def test_a_summary_can_be_had_as_markdown(launcher: Launcher, kept: Path) -> None:
    summarized = launcher.call("summarize", "logs/kept", "--format", "markdown")
    assert summarized.stdout.startswith("## TraceML: kept\n")


def test_every_form_of_a_summary_can_be_asked_for() -> None:
    assert set(FORMATS) == set(FORMS)


def test_a_run_that_is_made_anew_can_be_had_in_other_forms(
    launcher: Launcher, finished_run: Path
) -> None:
    summarized = launcher.call("summarize", str(finished_run), "--format", "json")
    document = json.loads(summarized.stdout)
    assert document["coverage"]["whole"] is True
    assert document == summarized.summary


@pytest.mark.parametrize("form", ["json", "html"])
def test_the_parts_of_several_nodes_are_no_single_document(
    launcher: Launcher, kept: Path, form: str
) -> None:
    for node in range(2):
        shutil.copytree(kept, launcher.folder / "logs" / "job" / f"node-{node}")
    assert_error(launcher, "logs/job", "name one of node-0, node-1", "--format", form)


BAD = {
    "empty": (b"", "is empty"),
    "truncated": (b'{"schema_version": 1, "run": {', "is no JSON"),
    "binary": (bytes(range(256)), "is no text"),
    "wrong shape": (b'{"schema_version": 1, "run": []}', "run should be an object, and is []"),
    "nan": (b'{"schema_version": NaN}', "NaN"),
    "another version": (b'{"schema_version": 7}', "schema version 7"),
}


@pytest.mark.parametrize(("content", "complaint"), BAD.values(), ids=BAD)
def test_a_summary_that_is_none(launcher: Launcher, content: bytes, complaint: str) -> None:
    (launcher.folder / "final_summary.json").write_bytes(content)
    assert_error(launcher, "final_summary.json", complaint)
    assert_error(launcher, ".", complaint)


def test_a_folder_that_is_none(launcher: Launcher) -> None:
    assert_error(launcher, "nowhere", "no such file or folder: nowhere")
    assert_error(launcher, "x" * 300, "File name too long")


def test_a_folder_without_a_run(launcher: Launcher) -> None:
    assert_error(launcher, ".", "no journal of a run in ., and no final_summary.json")


def assert_error(launcher: Launcher, argument: str, complaint: str, *more: str) -> None:
    finished = launcher.call("summarize", argument, *more)
    assert finished.exit_code == 2
    assert finished.stdout == ""
    assert finished.stderr.startswith("traceml: error: ")
    assert complaint in finished.stderr
    assert len(finished.stderr.splitlines()) == 1

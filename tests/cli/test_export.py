import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.test_errors import assert_one_line
from tests.launching import Launcher, eventually
from tests.ranks import Rank


@pytest.fixture
def run_dir(launcher: Launcher) -> Path:
    """A run of two ranks and 30 steps."""
    sidecar = launcher.start_sidecar()
    endpoint = launcher.sidecar()["endpoint"]
    with Rank(endpoint, 0, 2) as first, Rank(endpoint, 1, 2) as second:
        first.train(30)
        second.train(30)
        eventually(lambda: launcher.completed() == 30)
    sidecar.terminate()
    assert launcher.finish(sidecar).exit_code == 0
    return launcher.run_directory


def test_the_steps_as_a_table(launcher: Launcher, run_dir: Path) -> None:
    finished = launcher.call("export", str(run_dir), "--to", "csv")
    assert (finished.exit_code, finished.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(finished.stdout)))
    assert [(int(row["step"]), int(row["rank"])) for row in rows] == [
        (step, rank) for step in range(30) for rank in range(2)
    ]


def test_the_last_steps_as_a_trace_in_a_file(launcher: Launcher, run_dir: Path) -> None:
    finished = launcher.call(
        "export", str(run_dir), "--to", "perfetto", "--last", "5", "--output", "trace.json"
    )
    assert (finished.exit_code, finished.stdout, finished.stderr) == (0, "", "")
    trace = json.loads((launcher.folder / "trace.json").read_text())
    steps = [event for event in trace["traceEvents"] if event.get("cat") == "step"]
    assert len(steps) == 10
    assert not list(launcher.folder.glob(".*.part"))


def test_a_run_on_several_nodes_is_exported_one_by_one(launcher: Launcher, run_dir: Path) -> None:
    for node in range(2):
        shutil.copytree(run_dir, launcher.folder / "logs" / "job" / f"node-{node}")
    shutil.rmtree(run_dir)
    finished = launcher.call("export", "logs/job", "--to", "csv")
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert "name one of node-0, node-1" in finished.stderr
    assert launcher.call("export", "logs/job/node-1", "--to", "csv").exit_code == 0


def test_a_file_that_cannot_be_written(launcher: Launcher, run_dir: Path) -> None:
    finished = launcher.call("export", str(run_dir), "--to", "csv", "--output", "nowhere/x.csv")
    assert finished.exit_code == 73
    assert "cannot write nowhere/x.csv: No such file" in finished.stderr


def test_whoever_reads_only_the_beginning_gets_no_traceback(
    launcher: Launcher, run_dir: Path
) -> None:
    command = " ".join(launcher.command("export", str(run_dir), "--to", "csv"))
    finished = launcher.finish(launcher.popen(["sh", "-c", f"{command} | head -1"]))
    assert finished.stdout.startswith("attempt,step,rank")
    assert "Traceback" not in finished.stderr


def test_a_folder_that_is_none(launcher: Launcher) -> None:
    finished = launcher.call("export", "nowhere", "--to", "csv")
    assert_one_line(finished, 2, "no such folder: nowhere")
    assert_one_line(launcher.call("export", "x" * 300, "--to", "csv"), 2, "no such folder: xxx")


def test_a_folder_without_a_journal(launcher: Launcher) -> None:
    assert_one_line(launcher.call("export", ".", "--to", "csv"), 2, "no journal of a run in .")


def test_a_journal_without_a_step(launcher: Launcher) -> None:
    (launcher.folder / "journal").mkdir()
    finished = launcher.call("export", ".", "--to", "csv")
    assert_one_line(finished, 2, "no completed step in the journal of .")


@pytest.mark.parametrize(
    "arguments",
    [("export",), ("export", "."), ("export", ".", "--to", "x"),
     ("export", ".", "--to", "csv", "--last", "0")],
)  # fmt: skip
def test_wrong_usage(launcher: Launcher, arguments: tuple[str, ...]) -> None:
    assert_one_line(launcher.call(*arguments), 2)

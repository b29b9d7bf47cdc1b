import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import run_of
from tests.cli.test_errors import assert_one_line
from tests.launching import Launcher, eventually
from tests.ranks import Rank
from tests.strangers import STRANGE_FILES
from traceml.cli.main import main
from traceml.files import limits
from traceml.report.writing import write_summary


@pytest.fixture
def logs(launcher: Launcher) -> Path:
    return launcher.folder / "logs"


def keep(logs: Path, name: str, started_at: float = 1_700_000_000.0) -> None:
    """A run of 50 steps that ended in good order."""
    snapshot = run_of(2, steps=50, name=name)
    write_summary(replace(snapshot, run=replace(snapshot.run, started_at=started_at)), logs / name)


def names(stdout: str) -> list[str]:
    return [line.split()[0] for line in stdout.splitlines()[1:]]


def test_runs_are_shown_with_verdict_steps_and_duration(launcher: Launcher, logs: Path) -> None:
    keep(logs, "baseline")
    finished = launcher.call("list")
    header, row = finished.stdout.splitlines()
    assert header.split() == ["run", "status", "steps", "duration", "started", "(UTC)", "verdict"]
    cells = ["baseline", "completed", "50", "1", "min", "2023-11-14", "22:13:20", "COMPUTE-BOUND"]
    assert row.split()[: len(cells)] == cells
    assert finished.exit_code == 0


def test_the_latest_run_stands_last(launcher: Launcher, logs: Path) -> None:
    for name, at in (("b", 2e9), ("c", 1e9), ("a", 1.5e9)):
        keep(logs, name, at)
    assert names(launcher.call("list").stdout) == ["c", "a", "b"]


def test_the_parts_of_a_run_on_several_nodes_stand_each(launcher: Launcher, logs: Path) -> None:
    for node in range(2):
        keep(logs / "job", f"node-{node}")
    assert names(launcher.call("list").stdout) == ["job/node-0", "job/node-1"]


def test_another_folder_and_a_run_itself_can_be_named(launcher: Launcher, logs: Path) -> None:
    keep(launcher.folder / "elsewhere", "mine")
    assert names(launcher.call("list", "elsewhere").stdout) == ["mine"]
    assert names(launcher.call("list", "elsewhere/mine").stdout) == ["mine"]
    keep(logs, "x")
    process = launcher.popen(launcher.command("list"), {"TRACEML_LOGS_DIR": "elsewhere"})
    assert names(launcher.finish(process).stdout) == ["mine"]


def test_a_run_under_way_and_one_without_a_summary_are_shown_as_such(
    launcher: Launcher, logs: Path
) -> None:
    keep(logs, "before")
    (logs / "killed" / "journal").mkdir(parents=True)
    launcher.start_sidecar()
    with Rank(launcher.sidecar()["endpoint"]) as rank:
        rank.train(3)
        eventually(lambda: launcher.completed() == 3)
        rows = [line.split() for line in launcher.call("list").stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        ["killed", "no"], ["before", "completed"], ["test", "running"],
    ]  # fmt: skip
    assert rows[0][-3:] == ["traceml", "summarize", "logs/killed"]


def test_a_summary_that_cannot_be_read_costs_one_row(launcher: Launcher, logs: Path) -> None:
    keep(logs, "good")
    (logs / "bad").mkdir()
    (logs / "bad" / "final_summary.json").write_text("{")
    finished = launcher.call("list")
    assert finished.exit_code == 0
    bad, good = finished.stdout.splitlines()[1:]
    assert bad.split()[:2] == ["bad", "unreadable"]
    assert "is no JSON" in bad
    assert good.split()[0] == "good"


def test_what_is_no_run_is_passed_over(launcher: Launcher, logs: Path) -> None:
    (logs / "compare").mkdir(parents=True)
    (logs / "note.txt").write_text(json.dumps({}))
    finished = launcher.call("list")
    assert (finished.exit_code, finished.stdout) == (0, "")
    assert finished.stderr == "traceml: no runs in logs\n"


def test_a_terminal_that_lacks_a_character_shows_the_rest(launcher: Launcher, logs: Path) -> None:
    keep(logs, "baseline")
    summarized = launcher.popen(
        launcher.command("summarize", "logs/baseline"), {"PYTHONIOENCODING": "ascii"}
    )
    finished = launcher.finish(summarized)
    assert (finished.exit_code, "Traceback" in finished.stderr) == (0, False)
    assert "backward" in finished.stdout


@pytest.mark.parametrize("named", ["nowhere", "file", "x" * 300])
def test_a_folder_that_is_none(launcher: Launcher, named: str) -> None:
    (launcher.folder / "file").touch()
    assert_one_line(launcher.call("list", named), 2, f"no such folder: {named}")


def test_a_folder_of_more_runs_than_anybody_has_is_shown_in_part(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(8):
        (logs / f"run-{number}" / "journal").mkdir(parents=True)
    monkeypatch.setattr(limits, "RUNS", 5)
    assert main(["list", str(logs)]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1 + 5
    assert shown.err == f"traceml: {logs} holds more than 5 runs: the others are not shown\n"
    monkeypatch.setattr(limits, "NAMES", 5)
    assert main(["list", str(logs)]) == 2
    assert capsys.readouterr().err.endswith("it holds more than 5 files\n")


def test_summaries_without_end_are_not_all_read(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        keep(logs, name)
    size = (logs / "a" / "final_summary.json").stat().st_size
    monkeypatch.setattr(limits, "LISTED_BYTES", size)
    assert main(["list", str(logs)]) == 0
    states = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert states == [["b", "not"], ["c", "not"], ["a", "completed"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 10**6, "is nested too deeply"),
        ("[" + "[]," * 10**6 + "[]]", "holds more than 1000000 values"),
        ('{"schema_version": Infinity}', "it holds Infinity"),
        ('{"schema_version": 1, "run": ' + "9" * 5000 + "}", "too many digits"),
    ],
)
def test_a_summary_that_would_cost_too_much_is_one_row(
    logs: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (logs / "bad").mkdir(parents=True)
    (logs / "bad" / "final_summary.json").write_text(text)
    assert main(["list", str(logs)]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:2] == ["bad", "unreadable"]
    assert reason in row


@pytest.mark.parametrize("make", STRANGE_FILES.values(), ids=STRANGE_FILES)
@pytest.mark.parametrize("name", ["run", "run/journal", "run/journal/lock", "run/node-0"])
def test_whatever_stands_under_a_name_of_ours_the_list_goes_on(
    logs: Path, make: Callable[[Path], None], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / name).parent.mkdir(parents=True)
    make(logs / name)
    keep(logs, "good")
    assert main(["list", str(logs)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "good"

"""Commands on the folder of a run that somebody else has made."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_errors import assert_one_line
from tests.launching import Launcher
from tests.strangers import CONTROL, ESCAPES, STEPS, STRANGE_FILES, contents, make_run, victim
from traceml.cli.main import main

__all__ = ["victim"]


@pytest.fixture
def run(launcher: Launcher) -> Path:
    make_run(launcher.folder / "run")
    return launcher.folder / "run"


def test_a_run_s_folder_that_the_user_names_by_a_link_is_summarized_as_any(
    launcher: Launcher, run: Path
) -> None:
    (launcher.folder / "link").symlink_to(run)
    summarized = launcher.call("summarize", "link")
    assert (summarized.exit_code, summarized.stderr) == (0, "")
    assert (run / "final_summary.json").exists()


def test_links_in_it_are_not_written_through(launcher: Launcher, run: Path, victim: Path) -> None:
    for name in ("final_summary.json", "final_summary.txt", "final_summary.html"):
        (run / name).symlink_to(victim)
        for pid in range(os.getpid(), os.getpid() + 1000):
            (run / f".{name}.{pid}").symlink_to(victim)
    summarized = launcher.call("summarize", "run")
    assert summarized.exit_code == 0
    assert f"{STEPS} steps completed" in summarized.stdout
    assert not (run / "final_summary.txt").is_symlink()


@pytest.mark.parametrize("command", [("summarize",), ("export", "--to", "csv")])
def test_a_journal_that_is_a_link_is_none(
    launcher: Launcher, run: Path, command: tuple[str, ...]
) -> None:
    (launcher.folder / "other").mkdir()
    (launcher.folder / "other" / "journal").symlink_to(run / "journal")
    finished = launcher.call(*command, "other")
    assert_one_line(finished, 2, "no journal of a run in other")


@pytest.mark.parametrize("command", [("summarize",), ("export", "--to", "csv")])
def test_a_node_that_is_a_link_is_none(
    launcher: Launcher, run: Path, command: tuple[str, ...]
) -> None:
    (launcher.folder / "job").mkdir()
    (launcher.folder / "job" / "node-0").symlink_to(run)
    assert_one_line(launcher.call(*command, "job"), 2, "no journal of a run in job")
    assert not (run / "final_summary.json").exists()


@pytest.mark.parametrize("make", STRANGE_FILES.values(), ids=STRANGE_FILES)
def test_a_summary_that_is_no_file_is_one_line(
    launcher: Launcher, make: Callable[[Path], None]
) -> None:
    (launcher.folder / "runs" / "strange").mkdir(parents=True)
    make(launcher.folder / "runs" / "strange" / "final_summary.json")
    for command in (("summarize",), ("compare", "nowhere", "--base")):
        assert_one_line(launcher.call(*command, "runs/strange"), 2, "final_summary.json")
    assert launcher.call("list", "runs").exit_code == 0


def test_links_among_the_runs_are_passed_over(launcher: Launcher, run: Path) -> None:
    (launcher.folder / "logs").mkdir()
    (launcher.folder / "logs" / "link").symlink_to(run)
    listed = launcher.call("list")
    assert (listed.exit_code, listed.stdout) == (0, "")


@pytest.mark.parametrize("command", [("summarize",), ("export", "--to", "csv")])
def test_what_is_written_where_it_is_told_is_written_through_no_link(
    launcher: Launcher, run: Path, victim: Path, command: tuple[str, ...]
) -> None:
    for name in ("out", ".out.part", "out.part"):
        (launcher.folder / name).symlink_to(victim)
    assert launcher.call(*command, "run", "--output", "out").exit_code == 0
    assert not (launcher.folder / "out").is_symlink()
    assert (launcher.folder / "out").stat().st_size > 0


def test_a_summary_can_be_written_to_a_file(launcher: Launcher, run: Path) -> None:
    summarized = launcher.call("summarize", "run", "--format", "html", "--output", "x.html")
    assert (summarized.exit_code, summarized.stdout, summarized.stderr) == (0, "", "")
    page = (launcher.folder / "x.html").read_text()
    assert page.strip() == (run / "final_summary.html").read_text().strip()
    nowhere = launcher.call("summarize", "run", "--output", "nowhere/x")
    assert_one_line(nowhere, 73, "cannot write nowhere/x: No such file")


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_nothing_of_a_run_reaches_the_terminal_that_it_would_obey(
    launcher: Launcher, form: str
) -> None:
    folder = launcher.folder / "a\x1b]0;owned\x07b\nc"
    make_run(folder, ESCAPES, (ESCAPES,))
    (folder / "journal" / "00000002.segment").symlink_to("nowhere")
    summarized = launcher.call("summarize", folder.name, "--format", form)
    assert summarized.exit_code == 0
    assert not [each for each in summarized.stdout + summarized.stderr if each in CONTROL]
    for name in ("final_summary.txt", "final_summary.json", "final_summary.html"):
        assert not [each for each in (folder / name).read_text() if each in CONTROL]
    for command in (("list",), ("export", "--to", "csv"), ("compare", "nowhere")):
        finished = launcher.call(*command, folder.name if command != ("list",) else ".")
        assert not [each for each in finished.stdout + finished.stderr if each in CONTROL]


def test_a_link_swapped_in_between_is_an_error_in_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from traceml.files import Folder

    inside = Folder.inside

    def swapped(folder: Folder, name: str, *, make: bool = False) -> Folder:
        if name == "journal":
            (run / "journal").rename(run / "moved")
            (run / "journal").symlink_to(run / "moved")
        return inside(folder, name, make=make)

    monkeypatch.setattr(Folder, "inside", swapped)
    assert main(["summarize", str(run)]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert "final_summary.json" not in contents(run)


def test_the_job_s_folder_of_several_nodes_is_not_made_through_a_link(
    launcher: Launcher, tmp_path: Path
) -> None:
    (launcher.folder / "logs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (launcher.folder / "logs" / "test").symlink_to(tmp_path / "elsewhere")
    (launcher.folder / "train.py").touch()
    finished = launcher.run("train.py", "--nnodes", "2", "--node-rank", "0")
    assert finished.exit_code == 73
    assert "symbolic link" in finished.stderr
    assert not list((tmp_path / "elsewhere").iterdir())

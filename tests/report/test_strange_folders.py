"""The summary's files: written through no link, and with nothing in them that a terminal obeys."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import run_of
from tests.strangers import CONTROL, ESCAPES, victim
from traceml.publish.textfile import write_textfile
from traceml.report.compare.comparison import compare
from traceml.report.compare.ours import read_ours
from traceml.report.compare.reading import read_side
from traceml.report.compare.text import comparison_text
from traceml.report.reading import UnreadableError
from traceml.report.summary import summarized
from traceml.report.writing import rendered, write_summary
from traceml.sidecar.discovery import Discovery
from traceml.snapshot import Snapshot

__all__ = ["victim"]

NAMES = ("final_summary.json", "final_summary.txt", "final_summary.html")


def strange_run() -> Snapshot:
    """Everything that a rank, a user or a machine can name moves the cursor."""
    snapshot = run_of(2, steps=50)
    run = replace(
        snapshot.run, name=ESCAPES, device=ESCAPES, strategy=ESCAPES, torch=ESCAPES,
        python=ESCAPES, command=(ESCAPES,),
    )  # fmt: skip
    ranks = tuple(replace(rank, host=ESCAPES, phase=ESCAPES) for rank in snapshot.ranks)
    return replace(snapshot, run=run, ranks=ranks, notes=(ESCAPES,))


def test_links_under_the_names_are_replaced_and_guessed_names_are_not_used(
    tmp_path: Path, victim: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in NAMES:
        (run / name).symlink_to(victim)
        (run / f".{name}.{os.getpid()}").symlink_to(victim)
    write_summary(run_of(1), run)
    assert all(not (run / name).is_symlink() for name in NAMES)
    assert len(list(run.iterdir())) == 6


def test_a_run_s_folder_that_became_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        write_summary(run_of(1), tmp_path / "run")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_no_form_of_a_summary_holds_what_a_terminal_obeys(form: str) -> None:
    shown = rendered(summarized(strange_run()), form)
    assert not [each for each in shown if each in CONTROL]
    if form == "text":
        assert "owned" not in shown
        assert not any(line.startswith("forged") for line in shown.splitlines())


def test_no_comparison_does_either() -> None:
    side = read_ours(summarized(strange_run()))
    shown = comparison_text(compare([side], replace(side, name="other", environment={})))
    assert not [each for each in shown if each in CONTROL]


def test_a_summary_that_is_a_link_is_not_read_from_a_run_s_folder(tmp_path: Path) -> None:
    write_summary(run_of(2, steps=50), tmp_path / "mine")
    (tmp_path / "run").mkdir()
    link = tmp_path / "run" / "final_summary.json"
    link.symlink_to(tmp_path / "mine" / "final_summary.json")
    with pytest.raises(UnreadableError, match="symbolic link"):
        read_side(tmp_path / "run")
    assert read_side(link).name == "demo"  # named by the user himself


def test_a_textfile_is_written_through_no_link_and_into_no_other_folder(
    tmp_path: Path, victim: Path
) -> None:
    folder = tmp_path / "textfiles"
    folder.mkdir()
    for name in ("traceml-demo.prom", f".traceml-demo.prom.{os.getpid()}"):
        (folder / name).symlink_to(victim)
    write_textfile(run_of(1), folder)
    assert not (folder / "traceml-demo.prom").is_symlink()
    with pytest.raises(OSError, match="no file's name"):
        write_textfile(run_of(1, name="/../../out"), folder)


def test_an_announcement_is_written_through_no_link(tmp_path: Path, victim: Path) -> None:
    file = tmp_path / "sd.json"
    for name in ("sd.json", f".sd.json.{os.getpid()}"):
        (tmp_path / name).symlink_to(victim)
    discovery = Discovery(file)
    discovery.publish("127.0.0.1", 9464)
    assert not file.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o644
    file.unlink()
    os.mkfifo(file)
    discovery.withdraw()
    assert file.exists()  # somebody else's

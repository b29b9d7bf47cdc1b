"""A journal in a folder where somebody has planted something: read and written through no link."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sidecar.told import LIMIT, RUN
from tests.strangers import STEPS, STRANGE_FILES, make_run, make_sparse, victim
from traceml.files import Folder
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector
from traceml.sidecar.journal import Journal, is_written, numbers, path_of
from traceml.sidecar.logs import open_log
from traceml.sidecar.rebuild import rebuild, unfinished
from traceml.sidecar.recovery import recover
from traceml.sidecar.retained import Retained, retained_rows
from traceml.snapshot import Snapshot

__all__ = ["victim"]

CHECKPOINT = pack(capture({"at": 0.0, "collector": Collector(RUN).save()}))
PREDICTED = ["00000001.part", "00000002.part", "00000001.checkpoint", "00000002.checkpoint"]

each_strange_file = pytest.mark.parametrize("make", STRANGE_FILES.values(), ids=STRANGE_FILES)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose journal is whole."""
    make_run(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def journal(run: Path) -> Path:
    return run / "journal"


def rebuilt(run: Path) -> Snapshot | None:
    with Folder.at(run) as folder:
        return rebuild(folder)


@pytest.mark.parametrize("name", PREDICTED)
def test_a_link_under_a_name_that_will_be_written_is_not_written_through(
    tmp_path: Path, victim: Path, name: str
) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    journal = Journal(folder, LIMIT, RUN)
    for _ in range(3):
        journal.begin(CHECKPOINT)
    assert journal.problem == ""
    journal.close()


def test_a_link_in_the_place_of_the_next_segment_costs_one_try(
    tmp_path: Path, victim: Path
) -> None:
    folder = tmp_path / "journal"
    journal = Journal(folder, LIMIT, RUN)
    path_of(folder, 1, "segment").symlink_to(victim)
    assert not journal.begin(CHECKPOINT)
    assert journal.problem == os.strerror(errno.EEXIST)
    assert journal.begin(CHECKPOINT)
    journal.close()


def test_a_journal_that_is_a_link_is_neither_read_nor_written(tmp_path: Path, run: Path) -> None:
    (tmp_path / "mine").mkdir()
    link = tmp_path / "mine" / "journal"
    link.symlink_to(run / "journal")
    before = sorted(each.name for each in (run / "journal").iterdir())
    assert recover(link, None).collector is None
    assert "symbolic link" in recover(link, None).problems[0]
    assert (numbers(link, "segment"), is_written(link)) == ([], False)
    retained = Retained()
    assert list(retained_rows(link, retained)) == []
    assert "symbolic link" in retained.problems[0]
    journal = Journal(link, LIMIT, RUN)
    assert not journal.begin(CHECKPOINT)
    assert "symbolic link" in journal.problem
    assert sorted(each.name for each in (run / "journal").iterdir()) == before


def test_a_lock_that_is_a_link_is_not_opened(tmp_path: Path, victim: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / "lock").symlink_to(tmp_path / "made")
    journal = Journal(folder, LIMIT, RUN)
    assert journal.begin(CHECKPOINT)
    assert not (tmp_path / "made").exists()
    journal.close()


@each_strange_file
@pytest.mark.parametrize("name", ["00000001.segment", "00000001.checkpoint"])
def test_what_is_no_file_is_named_and_the_rest_is_read(
    journal: Path, make: Callable[[Path], None], name: str
) -> None:
    (journal / name).unlink()
    make(journal / name)
    number, kind = name.split(".")
    (problem,) = recover(journal, RUN).problems
    assert problem.startswith(f"{kind} {int(number)} is not readable: ")


@each_strange_file
def test_a_strange_thing_beside_the_journal_s_files_disturbs_no_writer(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "journal"
    journal = Journal(folder, 2**41, RUN)
    make(folder / "strange")
    assert journal.begin(CHECKPOINT)
    assert numbers(folder, "segment") == [1]
    journal.close()


@each_strange_file
def test_an_announcement_that_is_no_file_is_none(run: Path, make: Callable[[Path], None]) -> None:
    make(run / "sidecar.json")
    make(run / "final_summary.json")
    snapshot = rebuilt(run)
    assert snapshot is not None
    assert snapshot.steps.completed == STEPS
    assert unfinished(run) is None  # it was left too long ago


def test_what_a_writer_that_was_killed_left_half_is_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    (folder / ".0123.part").write_bytes(b"half")
    journal = Journal(folder, LIMIT, RUN)
    assert not (folder / ".0123.part").exists()
    journal.close()


def test_names_that_are_not_of_ours_are_passed_over(journal: Path) -> None:
    for name in ("1.segment", "²0000001.segment", "x.segment", "00000009", "00000009.segment.x"):
        (journal / name).touch()
    assert numbers(journal, "segment") == [1]


@each_strange_file
def test_a_log_that_is_no_file_is_not_written(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "sidecar.log")
    with open_log(tmp_path) as log:
        log.write(b"")
        is_devnull = os.fstat(log.fileno()).st_rdev == Path(os.devnull).stat().st_rdev
    assert is_devnull == (make is not make_sparse)
    assert not (tmp_path / "nowhere").exists()

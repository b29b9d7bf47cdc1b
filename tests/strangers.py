"""Runs' folders as strangers leave them: with links, pipes and names that are out for trouble."""

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import STARTED_AT
from tests.sidecar.told import LIMIT, Teller, steps
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.journal import Journal

NOBODY = 65_534
STEPS = 20
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\rover\nforged  completed"
CONTROL = [chr(code) for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))]


def make_run(
    directory: Path,
    name: str = "strange",
    notes: tuple[str, ...] = (),
    started_at: float = STARTED_AT,
) -> None:
    """A run of one rank in this folder, left by its sidecar; only the journal is there of it."""
    collector = Collector(RunIdentity(name, "7", (name,), started_at, None))
    for note in notes:
        collector.note(note)
    journal = Journal(directory / "journal", LIMIT, collector.run)
    assert journal.begin(pack(capture({"at": started_at, "collector": collector.save()})))
    rank = Teller(0, 1)
    rank.make(steps(0, STEPS, 0))
    for entry in (rank.hello(), rank.push(rank.unacknowledged[0])):
        entry.at = started_at
        assert journal.append([entry.SerializeToString()])
    journal.close()
    os.close(journal._lock or -1)


def make_sparse(file: Path) -> None:
    """A file that says it is as large as a disk."""
    file.touch()
    os.truncate(file, 2**40)


# Whoever opens these as if they were files waits for ever, fills the memory, or is led elsewhere.
STRANGE_FILES: dict[str, Callable[[Path], None]] = {
    "a link to /dev/zero": lambda file: file.symlink_to("/dev/zero"),
    "a link to nothing": lambda file: file.symlink_to("nowhere"),
    "a pipe": os.mkfifo,
    "a sparse file": make_sparse,
    "a folder": Path.mkdir,
}


def contents(folder: Path) -> dict[str, bytes | str]:
    """All that lies below a folder; of a link where it leads."""
    return {
        str(each.relative_to(folder)): str(each.readlink()) if each.is_symlink() else _data(each)
        for each in sorted(folder.rglob("*"))
    }


def _data(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that nobody may change; it is as it was when the test is over."""
    file = tmp_path / "precious"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"
    assert not file.is_symlink()


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder in which everybody may make files."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def require_another_user() -> None:
    """Only root can be somebody else."""
    if os.geteuid() != 0:
        if os.environ.get("TRACEML_REQUIRE_REAL") == "1":
            pytest.fail("a second user is required, and only root can be one")
        pytest.skip("only root can be somebody else")


def as_stranger(work: Callable[[], object]) -> int:
    """Do it as another user of the host; returns the exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            found = work()
            code = found if isinstance(found, int) else 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

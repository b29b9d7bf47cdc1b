"""A second user of the host, who leaves a run's folder for others to read."""

import csv
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import STARTED_AT
from tests.launching import Launcher, eventually
from tests.strangers import (
    NOBODY,
    STEPS,
    as_stranger,
    contents,
    make_run,
    require_another_user,
    shared_folder,
    victim,
)
from traceml.cli.main import main
from traceml.report.reading import read_summary

__all__ = ["victim"]

NAMES = ("final_summary.json", "final_summary.txt", "final_summary.html", "sidecar.json")


@pytest.fixture
def shared() -> Iterator[Path]:
    require_another_user()
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def strange(shared: Path, victim: Path) -> Path:
    """The stranger's run, with a link to the reader's file under every name that can be guessed."""
    run = shared / "run"

    def plant() -> None:
        make_run(run)
        for name in NAMES:
            (run / name).symlink_to(victim)
            for pid in range(os.getpid(), os.getpid() + 1500):
                (run / f".{name}.{pid}").symlink_to(victim)
        for name in ("00000001.part", "00000002.part", "00000002.checkpoint"):
            (run / "journal" / name).symlink_to(victim)
        run.chmod(0o777)

    assert as_stranger(plant) == 0
    assert run.stat().st_uid == NOBODY
    return run


@pytest.mark.parametrize("form", ["text", "html"])
def test_the_run_of_another_user_is_summarized_and_nothing_is_written(
    launcher: Launcher, strange: Path, form: str
) -> None:
    before, own = contents(strange), contents(launcher.folder)
    summarized = launcher.call("summarize", str(strange), "--format", form)
    assert summarized.exit_code == 0
    assert f"{STEPS} steps completed" in summarized.stdout
    assert summarized.stderr == (
        f"traceml: {strange} belongs to another user: nothing is written into it (see --output)\n"
    )
    assert contents(strange) == before
    assert contents(launcher.folder) == own


def test_it_is_written_where_it_is_told(launcher: Launcher, strange: Path, victim: Path) -> None:
    before = contents(strange)
    out = strange.parent / "out"
    assert as_stranger(lambda: _plant_beside(out, victim)) == 0
    for command in (("summarize",), ("export", "--to", "csv")):
        finished = launcher.call(*command, str(strange), "--output", str(out))
        assert finished.exit_code == 0
        assert not out.is_symlink()
        assert out.stat().st_uid == os.geteuid()
    assert len(list(csv.DictReader(io.StringIO(out.read_text())))) == STEPS
    assert contents(strange) == before


def _plant_beside(out: Path, victim: Path) -> None:
    for name in ("out", ".out.part"):
        out.with_name(name).symlink_to(victim)
    for pid in range(os.getpid(), os.getpid() + 1500):
        out.with_name(f".out.{pid}").symlink_to(victim)


def test_it_is_compared_listed_and_exported_and_nothing_is_written(
    launcher: Launcher, strange: Path
) -> None:
    before = contents(strange)
    assert launcher.call("list", str(strange.parent)).exit_code == 0
    assert launcher.call("export", str(strange), "--to", "perfetto").exit_code == 0
    assert launcher.call("compare", str(strange), str(strange)).exit_code == 2  # a link
    assert contents(strange) == before


def test_what_it_names_elsewhere_is_not_opened(
    launcher: Launcher, shared: Path, tmp_path: Path
) -> None:
    """A file beside the socket that sidecar.json names would be taken from a run of one's own."""
    from traceml.wire import telemetry_pb2 as pb
    from traceml.wire.left import leave

    endpoint = f"unix://{tmp_path}/own.sock"
    leave(endpoint, "s", [pb.Entry(goodbye=pb.GoodbyeRequest(session="s"))])
    (file,) = tmp_path.glob("own.sock.*")
    os.utime(file, (STARTED_AT + 5000, STARTED_AT + 5000))

    def plant() -> None:
        make_run(shared / "run")
        (shared / "run" / "sidecar.json").write_text(f'{{"endpoint": "{endpoint}"}}')

    assert as_stranger(plant) == 0
    theirs = launcher.call("summarize", str(shared / "run")).stdout
    for each in (shared / "run", *(shared / "run").rglob("*")):
        os.chown(each, os.geteuid(), -1)
    ours = launcher.call("summarize", str(shared / "run")).stdout
    assert theirs != ours


def test_a_sidecar_does_not_go_on_with_the_run_of_another_user(
    launcher: Launcher, shared: Path
) -> None:
    started_at = time.time()

    def plant() -> None:
        make_run(shared / "test", "test", started_at=started_at)
        (shared / "test").chmod(0o777)

    assert as_stranger(plant) == 0
    before = contents(shared / "test")
    sidecar = launcher.start_sidecar("--logs-dir", str(shared))
    eventually(lambda: (shared / "test-2" / "sidecar.json").exists())
    sidecar.terminate()
    finished = launcher.finish(sidecar)
    assert "goes on after" not in finished.stderr
    assert contents(shared / "test") == before


def test_a_colleague_can_read_the_summary_of_a_run_and_changes_nothing(
    launcher: Launcher, shared: Path
) -> None:
    make_run(shared / "mine")
    assert launcher.call("summarize", str(shared / "mine")).exit_code == 0
    before = contents(shared / "mine")
    # What is needed is imported here: a stranger may not look into the home where Python is.
    assert main(["summarize", str(shared / "mine")]) == 0
    read_summary(shared / "mine" / NAMES[0])
    assert as_stranger(lambda: main(["summarize", str(shared / "mine")])) == 0
    assert contents(shared / "mine") == before

import asyncio
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.strangers import NOBODY, as_stranger, require_another_user, shared_folder
from traceml.sidecar.handover import ask, offered

PORT = 9464


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where runs of this user find each other."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"traceml-of-{os.geteuid()}"


@contextmanager
def lingering(port: int = PORT) -> Iterator[threading.Event]:
    """A sidecar that lingers there; set when it has been asked to make way."""
    asked, ready, over = threading.Event(), threading.Event(), threading.Event()

    async def work() -> None:
        async with offered(port, asked.set):
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    ready.wait()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


def test_who_lingers_is_asked_and_leaves_nothing(folder: Path) -> None:
    with lingering() as asked:
        assert not asked.is_set()
        assert ask(PORT)
        assert asked.wait(30)
    assert not ask(PORT)
    assert not list(folder.iterdir())


def test_another_port_is_not_asked_for() -> None:
    with lingering() as asked:
        assert not ask(PORT + 1)
    assert not asked.is_set()


def test_only_this_user_can_enter_the_folder(folder: Path) -> None:
    with lingering():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_killed_one_left_is_in_nobody_s_way(folder: Path) -> None:
    folder.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / f"{PORT}.sock"))
    assert not ask(PORT)
    with lingering() as asked:
        assert ask(PORT)
        assert asked.wait(30)


@pytest.mark.parametrize("mode", [0o777, 0o710, 0o701])
def test_a_folder_that_others_can_enter_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with lingering():
        assert not list(folder.iterdir())
        assert not ask(PORT)


def test_a_folder_of_another_user_is_not_used(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make one")
    folder.mkdir(0o700)
    os.chown(folder, 65_534, 65_534)
    with lingering():
        assert not list(folder.iterdir())
        assert not ask(PORT)


def test_another_user_s_run_does_not_get_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    require_another_user()
    monkeypatch.setattr(tempfile, "tempdir", None)  # a stranger can't enter the test's own
    with shared_folder() as everybody_s:
        everybody_s.chmod(0o1777)
        monkeypatch.setattr(tempfile, "tempdir", str(everybody_s))
        with lingering() as asked:
            assert as_stranger(lambda: int(ask(PORT))) == 0
            assert (everybody_s / f"traceml-of-{NOBODY}").is_dir()  # he could well ask for his own
            assert not asked.is_set()
            assert ask(PORT)


def test_a_link_in_its_place_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with lingering():
        assert not list((tmp_path / "elsewhere").iterdir())
        assert not ask(PORT)


def test_where_no_folder_can_be_made_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with lingering():
        assert not ask(PORT)

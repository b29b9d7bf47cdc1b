"""Files are written whole, under names nobody can guess, and through no link."""

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.strangers import victim
from traceml.files import (
    Folder,
    LinkError,
    NotRegularError,
    append_to,
    create,
    is_part,
    opened,
    replacing,
    write_atomically,
    write_in,
)

__all__ = ["victim"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_atomically(file, "one")
    with file.open() as before:
        write_atomically(file, "two \udcff")
        assert before.read() == "one"
    assert file.read_text() == "two \\udcff"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_link_under_the_name_is_replaced_and_what_it_leads_to_stays(
    tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "a").symlink_to(victim)
    write_atomically(tmp_path / "a", "new")
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


def test_a_file_with_a_second_name_is_not_written_through(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "a").hardlink_to(victim)
    write_atomically(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"


def test_names_that_could_be_guessed_are_not_used(tmp_path: Path, victim: Path) -> None:
    planted = [f".a.{os.getpid()}", ".a.part", "a.part", ".a.tmp", "a~", f"a.{os.getpid()}"]
    for name in planted:
        (tmp_path / name).symlink_to(victim)
    write_atomically(tmp_path / "a", "new")
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_symlink()) == sorted(planted)


def test_no_two_temporary_names_are_the_same(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as folder:
        seen = []
        for _ in range(50):
            with replacing(folder, "a"):
                seen += [each.name for each in tmp_path.iterdir() if is_part(each.name)]
    assert len(set(seen)) == 50


def test_a_temporary_name_that_is_taken_is_not_written_to(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".guessed.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "a", "new")
    assert not (tmp_path / "a").exists()


def test_nothing_stays_of_what_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "a", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_folder_swapped_for_a_link_is_still_the_one_that_was_opened(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    with Folder.at(tmp_path / "run") as folder:
        (tmp_path / "run").rename(tmp_path / "moved")
        (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
        write_in(folder, "a", b"new")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert (tmp_path / "moved" / "a").read_bytes() == b"new"


def test_whoever_swaps_links_in_meanwhile_gets_nothing_written_through(
    tmp_path: Path, victim: Path
) -> None:
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            (tmp_path / "planted").symlink_to(victim)
            (tmp_path / "planted").replace(tmp_path / "a")

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        for _ in range(300):
            write_atomically(tmp_path / "a", "new")
            assert victim.read_text() == "precious"
    finally:
        is_over.set()
        attacker.join()


@pytest.mark.parametrize("name", ["../a", "b/a", "/a", "..", "", "a\0"])
def test_a_name_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    with Folder.at(tmp_path / "run") as folder, pytest.raises(OSError, match="no file's name"):
        write_in(folder, name, b"new")
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == ["run"]


def test_a_mode_that_is_asked_for_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "for others", "x", 0o644)
        write_atomically(tmp_path / "as usual", "x")
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {"for others": 0o644, "as usual": 0o600}


def test_a_new_file_is_made_where_nothing_stands(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "nowhere").symlink_to(tmp_path / "made")
    with Folder.at(tmp_path) as folder:
        for name in ("link", "nowhere", "precious"):
            with pytest.raises(FileExistsError):
                create(folder, name)
    assert not (tmp_path / "made").exists()


def test_a_log_is_appended_to_only_if_it_is_a_file_of_one_name(
    tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "second name").hardlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    with Folder.at(tmp_path) as folder:
        for name in ("link", "second name", "pipe"):
            with pytest.raises(OSError):  # noqa: PT011 (each has its own)
                append_to(folder, name)
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        with pytest.raises(NotRegularError):
            append_to(folder, "pipe")
        os.close(reader)
        for _ in range(2):
            with os.fdopen(append_to(folder, "log"), "ab") as log:
                log.write(b"line\n")
    assert (tmp_path / "log").read_text() == "line\nline\n"


def test_a_folder_of_ours_that_became_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError), opened(tmp_path / "run"):
        pass
    with Folder.at(tmp_path / "run") as named:  # which the user may do
        write_in(named, "a", b"new")
    assert (tmp_path / "elsewhere" / "a").exists()

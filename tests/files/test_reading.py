"""Only regular files are read, not through links, and not without end."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.strangers import make_sparse
from traceml.files import Folder, LinkError, NotRegularError, TooLargeError, read_in, read_named

LIMIT = 1000


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


STRANGE: dict[str, tuple[Callable[[Path], Any], type[OSError]]] = {
    "a pipe": (os.mkfifo, NotRegularError),
    "a folder": (Path.mkdir, NotRegularError),
    "a socket": (_socket, OSError),
    "nothing": (lambda path: None, FileNotFoundError),
    "a link to a file": (lambda path: path.symlink_to("/etc/hostname"), LinkError),
    "a link without end": (lambda path: path.symlink_to("/dev/zero"), LinkError),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), LinkError),
    "a link to itself": (lambda path: path.symlink_to(path), LinkError),
    "a large file": (lambda path: path.write_bytes(b"x" * (LIMIT + 1)), TooLargeError),
    "a sparse file": (make_sparse, TooLargeError),
}


@pytest.mark.parametrize(("make", "error"), STRANGE.values(), ids=STRANGE)
def test_what_is_no_plain_file_in_a_folder_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], Any], error: type[OSError]
) -> None:
    make(tmp_path / "x")
    with Folder.at(tmp_path) as folder, pytest.raises(error):
        read_in(folder, "x", LIMIT)


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * LIMIT)
    with Folder.at(tmp_path) as folder:
        assert read_in(folder, "x", LIMIT) == b"x" * LIMIT


def test_a_link_that_the_user_names_is_followed_and_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "zero").symlink_to("/dev/zero")
    assert read_named(tmp_path / "link", LIMIT) == b"x"
    with pytest.raises(NotRegularError):
        read_named(tmp_path / "zero", LIMIT)


def test_a_file_that_says_it_is_empty_and_is_not_is_bounded_too() -> None:
    with pytest.raises(TooLargeError):
        read_named(Path("/proc/self/smaps"), LIMIT)


def test_folders_that_are_links_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "node-0").mkdir()
    (tmp_path / "node-1").symlink_to("node-0")
    (tmp_path / "node-2").touch()
    with Folder.at(tmp_path) as folder:
        assert folder.folders("node-", lambda _: True) == ["node-0"]
        with pytest.raises(LinkError):
            folder.inside("node-1")

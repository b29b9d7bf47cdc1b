"""Where ranks report stays reachable, whoever removes the socket, and strangers are bounded."""

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launching import eventually
from tests.ranks import Rank
from tests.serving import serving
from traceml.sidecar import transport
from traceml.sidecar.collector import Collector
from traceml.sidecar.socket_file import make_folder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "sockets"
    folder.mkdir(0o700)
    return folder / "s.sock"


@pytest.fixture
def served(path: Path, collector: Collector) -> Iterator[str]:
    with serving(collector, f"unix://{path}") as endpoint:
        yield endpoint


def completed(collector: Collector) -> int:
    return collector.snapshot().steps.completed


@pytest.mark.parametrize("removed", ["the folder", "the socket", "all above it"])
def test_a_socket_that_somebody_removed_is_made_again_and_no_step_is_lost(
    served: str, path: Path, collector: Collector, removed: str
) -> None:
    with Rank(served) as rank:
        rank.train(10)
        eventually(lambda: completed(collector) == 10)
        if removed == "the socket":
            path.unlink()
        else:
            shutil.rmtree(path.parent if removed == "the folder" else path.parents[1])
        rank.train(10)
        eventually(lambda: can_connect(path))
        rank.train(10)
        eventually(lambda: completed(collector) == 30)
    if removed != "the socket":
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_it_is_made_again_as_often_as_it_is_removed(
    served: str, path: Path, collector: Collector
) -> None:
    with Rank(served) as rank:
        for times in range(1, 4):
            rank.train(5)
            eventually(lambda: completed(collector) == rank.trained)
            path.unlink()
            eventually(lambda: can_connect(path))
            assert rank.trained == 5 * times


def test_a_socket_that_another_sidecar_put_there_is_left_to_it(
    served: str, path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    with Rank(served) as rank, socket.socket(socket.AF_UNIX) as other:
        rank.train(5)
        eventually(lambda: completed(collector) == 5)
        path.unlink()
        other.bind(str(path))
        other.listen()
        mine = path.stat().st_ino
        eventually(lambda: "another sidecar listens at" in caplog.text)
        rank.train(5)  # its connection is still there
        eventually(lambda: completed(collector) == 10)
        assert path.stat().st_ino == mine


def test_a_folder_that_is_missing_is_made_for_its_user_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "gone" / "sockets")
    for folder in (tmp_path / "gone", tmp_path / "gone" / "sockets"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_a_folder_that_another_user_made_in_its_place_is_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    taken = tmp_path / "traceml-x"
    taken.mkdir()
    os.chown(taken, 65_534, 65_534)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_folder(taken)
    link = tmp_path / "traceml-y"
    link.symlink_to(taken)
    os.chown(link, 65_534, 65_534, follow_symlinks=False)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_folder(link)


@pytest.mark.parametrize("said", [b"", PREFACE], ids=["nothing", "its preface"])
def test_a_connection_on_which_nobody_calls_is_closed(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, said: bytes
) -> None:
    monkeypatch.setattr(transport, "HANDSHAKE_SECONDS", 1)
    monkeypatch.setattr(transport, "IDLE_SECONDS", 1)
    with serving(collector, "tcp://127.0.0.1:0") as endpoint:
        host, port = endpoint.removeprefix("tcp://").split(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(said)
            stranger.settimeout(30)
            while stranger.recv(4096):
                pass


def can_connect(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
    return True

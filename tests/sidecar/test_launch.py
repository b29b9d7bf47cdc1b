import errno
import tempfile
from pathlib import Path

import pytest

from traceml.cli.errors import CANNOT_CREATE
from traceml.cli.main import main
from traceml.sidecar.launch import remove_endpoint, socket_endpoint


def socket_of(endpoint: str) -> Path:
    return Path(endpoint.removeprefix("unix://"))


def test_a_socket_of_ours_goes_with_its_folder_and_with_what_was_left_there() -> None:
    endpoint = socket_endpoint()
    socket = socket_of(endpoint)
    for name in ("sidecar.sock", "sidecar.sock.abc.left"):
        (socket.parent / name).touch()
    remove_endpoint(endpoint)
    assert not socket.parent.exists()


def test_a_folder_in_which_somebody_else_keeps_something_stays() -> None:
    endpoint = socket_endpoint()
    other = socket_of(endpoint).parent / "precious"
    other.touch()
    remove_endpoint(endpoint)
    assert other.exists()
    other.unlink()
    remove_endpoint(endpoint)
    assert not other.parent.exists()


def test_a_socket_that_a_user_has_chosen_is_not_ours_to_take_away(tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"
    socket.touch()
    remove_endpoint(f"unix://{socket}")
    assert socket.exists()
    remove_endpoint("tcp://127.0.0.1:1")
    remove_endpoint("")
    assert tmp_path.exists()


def test_where_nothing_but_volumes_can_be_written_to_a_chosen_socket_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere(**_: str) -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(tempfile, "mkdtemp", nowhere)
    socket = tmp_path / "traceml-ranks" / "s.sock"
    remove_endpoint(f"unix://{socket}")
    assert main(["sidecar", "--logs-dir", str(tmp_path)]) == CANNOT_CREATE
    assert capsys.readouterr().err == (
        "traceml: error: no place for a socket: No usable temporary directory found\n"
    )

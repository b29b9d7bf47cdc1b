import os
from pathlib import Path

import pytest

from tests.descriptors import descriptors_left
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.left import leave, left

WORDS = [pb.Entry(goodbye=pb.GoodbyeRequest(session=name)) for name in ("a", "b")]


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"unix://{tmp_path}/job.sock"


def found(endpoint: str, since: float = 0.0) -> list[list[pb.Entry]]:
    return [list(entries) for _, entries in left(endpoint, since)]


def test_what_was_left_at_a_socket_is_found_there(endpoint: str) -> None:
    leave(endpoint, "s1", WORDS)
    leave(endpoint, "s2", WORDS[:1])
    assert found(endpoint) == [WORDS, WORDS[:1]]


def test_it_is_for_this_user_alone(endpoint: str) -> None:
    leave(endpoint, "s", WORDS)
    ((file, _),) = left(endpoint, 0.0)
    assert file.stat().st_mode & 0o077 == 0


def test_another_socket_in_the_folder_has_its_own(endpoint: str) -> None:
    leave(endpoint.replace("job", "other"), "s", WORDS)
    assert found(endpoint) == []


def test_what_an_earlier_run_left_is_not_this_one_s(endpoint: str) -> None:
    leave(endpoint, "s", WORDS)
    ((file, _),) = left(endpoint, 0.0)
    os.utime(file, (1_000, 1_000))
    assert found(endpoint, since=2_000) == []


def test_a_socket_s_name_is_taken_literally(tmp_path: Path) -> None:
    leave(f"unix://{tmp_path}/job[1].sock", "s", WORDS)
    assert found(f"unix://{tmp_path}/job[1].sock") == [WORDS]
    assert found(f"unix://{tmp_path}/job*.sock") == []


def test_a_link_to_elsewhere_is_not_followed(endpoint: str, tmp_path: Path) -> None:
    leave(f"unix://{tmp_path}/hidden", "s", WORDS)
    (tmp_path / "job.sock.s.left").symlink_to(tmp_path / "hidden.s.left")
    assert found(endpoint) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_s_is_not_read(endpoint: str) -> None:
    leave(endpoint, "s", WORDS)
    ((file, _),) = left(endpoint, 0.0)
    os.chown(file, 65_534, -1)
    assert found(endpoint) == []


def test_a_pipe_in_its_place_does_not_hold_the_reader(endpoint: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "job.sock.s.left")
    assert found(endpoint) == []


def test_garbage_is_passed_over(endpoint: str, tmp_path: Path) -> None:
    (tmp_path / "job.sock.s.left").write_bytes(os.urandom(1000))
    assert found(endpoint) == [[]]


def test_over_tcp_there_is_no_place_to_leave_anything() -> None:
    leave("tcp://127.0.0.1:1", "s", WORDS)
    assert found("tcp://127.0.0.1:1") == []


@pytest.mark.parametrize("descriptors", [0, 1])  # for the folder, and to list or read in it
def test_what_cannot_be_read_for_want_of_a_descriptor_is_not_taken_for_absent(
    descriptors: int, endpoint: str
) -> None:
    leave(endpoint, "s", WORDS)
    with descriptors_left(descriptors), pytest.raises(OSError, match="Too many open files"):
        found(endpoint)
    assert found(endpoint) == [WORDS]

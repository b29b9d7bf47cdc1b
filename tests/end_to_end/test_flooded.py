"""Strangers on the network who send much, or connect often: what they cost is bounded."""

import socket
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from tests.launching import Launcher, eventually
from tests.ranks import Rank
from traceml.wire import MAX_MESSAGE_BYTES
from traceml.wire.service import SERVICE

CALLS = 300
LISTEN = ("--listen", "tcp://127.0.0.1:0")
REFUSED = 'traceml_requests_refused_total{reason="unauthenticated",run="test"}'


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("open sesame\n")
    return file


def most_resident_bytes(pid: int) -> int:
    """The most that a process has ever had in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_of_calls_without_the_token_nothing_is_kept_and_ranks_get_through(
    launcher: Launcher, token: Path
) -> None:
    launcher.start_sidecar(*LISTEN, "--token-file", str(token))
    sidecar = launcher.sidecar()
    environment = {"TRACEML_TOKEN_FILE": str(token)}
    with ExitStack() as stack:
        rank = stack.enter_context(Rank(sidecar["endpoint"], environment=environment))
        rank.train(10)
        eventually(lambda: launcher.completed() == 10)
        before = most_resident_bytes(sidecar["pid"])
        channel = stack.enter_context(
            grpc.insecure_channel(sidecar["endpoint"].removeprefix("tcp://"))
        )
        call = channel.unary_unary(f"/{SERVICE}/Push")
        body = b"x" * (MAX_MESSAGE_BYTES - 1024)
        calls = [call.future(body, timeout=60) for _ in range(CALLS)]
        rank.train(10)
        denied = [each.code() for each in calls]
        assert grpc.StatusCode.OK not in denied
        eventually(lambda: launcher.completed() == 20)
        refused = denied.count(grpc.StatusCode.UNAUTHENTICATED)
        assert refused > 0
        eventually(lambda: (launcher.value(REFUSED) or 0) >= refused)
        grown = most_resident_bytes(sidecar["pid"]) - before
        assert grown < CALLS * MAX_MESSAGE_BYTES / 4
        assert rank.sender._failures == 0


def test_connections_leave_descriptors_for_the_run_and_are_refused_beyond_that(
    launcher: Launcher, token: Path
) -> None:
    own = ["--run-name", "test", "--metrics-port", "0", "--linger", "0"]
    command = launcher.command("sidecar", *own, *LISTEN, "--token-file", str(token))
    launcher.popen(["sh", "-c", 'ulimit -n 128 && exec "$@"', "sh", *command])
    endpoint = launcher.sidecar()["endpoint"]
    host, port = endpoint.removeprefix("tcp://").split(":")
    with Rank(endpoint, environment={"TRACEML_TOKEN_FILE": str(token)}) as rank:
        rank.train(10)
        eventually(lambda: launcher.completed() == 10)
        with ExitStack() as stack:
            strangers = [
                stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(200)
            ]
            eventually(lambda: sum(map(is_closed, strangers)) >= 100)
            rank.train(10)
            eventually(lambda: launcher.completed() == 20)
        assert rank.sender._failures == 0


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True

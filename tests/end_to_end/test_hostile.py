"""Whatever comes to the socket or the port, the run goes on, and what was refused is counted."""

import os
import random
import socket
import struct
from collections.abc import Iterator

import grpc
import psutil
import pytest

from tests.builders import hello_request, make_identity, malformed_batch, timed_records
from tests.client import Client
from tests.launching import Launcher, eventually
from tests.ranks import Rank
from traceml.wire import MAX_MESSAGE_BYTES
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode
from traceml.wire.service import SERVICE

MESSAGES = 400
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">I", 0)[1:] + b"\x04\x00" + b"\0" * 4


@pytest.fixture(params=["unix", "tcp"])
def run(request: pytest.FixtureRequest, launcher: Launcher) -> Launcher:
    """A sidecar that anybody may talk to."""
    listen = {
        "unix": (),
        "tcp": ("--listen", "tcp://127.0.0.1:0", "--insecure"),
    }
    launcher.start_sidecar(*listen[request.param])
    launcher.sidecar()
    return launcher


@pytest.fixture
def honest(run: Launcher) -> Iterator[Rank]:
    """A rank that must not notice any of it."""
    with Rank(run.sidecar()["endpoint"]) as rank:
        rank.train(10)
        eventually(lambda: run.completed() == 10)
        yield rank
        rank.train(10)
        eventually(lambda: run.completed() == 20)
        assert rank.sender._failures == 0


def channel_to(run: Launcher) -> grpc.Channel:
    return grpc.insecure_channel(run.sidecar()["endpoint"].removeprefix("tcp://"))


def refused(run: Launcher, reason: str) -> int:
    series = f'traceml_requests_refused_total{{reason="{reason}",run="test"}}'
    return int(run.value(series) or 0)


def send_bytes(channel: grpc.Channel, method: str, data: bytes) -> grpc.StatusCode:
    """Send any bytes as a request; returns how they were answered."""
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        call(data, timeout=10)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def test_messages_that_are_none_are_refused_and_counted(run: Launcher, honest: Rank) -> None:
    dice = random.Random(7)
    allowed = {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
    whole = pb.PushRequest(session="x", batch=encode(timed_records(range(20)), 1))
    with channel_to(run) as channel:
        for _ in range(MESSAGES):
            method = dice.choice(("Hello", "Push", "Goodbye"))
            data = dice.choice((
                dice.randbytes(dice.randrange(300)),
                whole.SerializeToString()[: dice.randrange(1000)],
                b"",
            ))  # fmt: skip
            assert send_bytes(channel, method, data) in allowed
    reasons = ("malformed", "session", "protocol")
    eventually(lambda: sum(refused(run, reason) for reason in reasons) == MESSAGES)
    assert refused(run, "internal") == 0


def test_a_message_that_is_too_large_is_not_even_read(run: Launcher, honest: Rank) -> None:
    with channel_to(run) as channel:
        for _ in range(3):
            status = send_bytes(channel, "Push", b"x" * (MAX_MESSAGE_BYTES + 1))
            assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
    eventually(lambda: refused(run, "unread") == 3)


def test_bytes_that_are_not_even_http_disturb_nobody(run: Launcher, honest: Rank) -> None:
    process = psutil.Process(run.sidecar()["pid"])
    before = process.num_fds()
    for beginning in (b"", PREFACE, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
        for _ in range(25):
            with connected(run) as stranger:
                stranger.sendall(beginning + os.urandom(500))
    eventually(lambda: process.num_fds() <= before + 2)


def connected(run: Launcher) -> socket.socket:
    endpoint = run.sidecar()["endpoint"]
    if endpoint.startswith("unix://"):
        unix = socket.socket(socket.AF_UNIX)
        unix.connect(endpoint.removeprefix("unix://"))
        return unix
    host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
    return socket.create_connection((host, int(port)))


def test_a_rank_that_says_nonsense_of_itself_is_refused(run: Launcher, honest: Rank) -> None:
    crowd = make_identity(0, 1)
    crowd.local_world_size = 4_000_000_000
    stranger = make_identity(9, 10)
    stranger.world_size = 3
    wordy = make_identity(0, 1)
    wordy.fingerprint = "x" * 10_000
    with channel_to(run) as channel:
        for number, identity in enumerate((crowd, stranger, wordy)):
            request = hello_request(f"n{number}", identity)
            status = send_bytes(channel, "Hello", request.SerializeToString())
            assert status is grpc.StatusCode.INVALID_ARGUMENT
    eventually(lambda: refused(run, "malformed") == 3)


def test_what_was_said_before_can_be_said_again_without_effect(run: Launcher) -> None:
    hello = hello_request("s", make_identity(0, 1))
    push = pb.PushRequest(session="s", batch=encode(timed_records(range(50)), 1))
    with channel_to(run) as channel:
        client = Client(channel)
        for _ in range(20):
            client.hello(hello, timeout=10)
            assert client.push(push, timeout=10).acknowledged == 1
        eventually(lambda: run.completed() == 50)
        client.push(pb.PushRequest(session="s", batch=malformed_batch(2)), timeout=10)
        client.goodbye(pb.GoodbyeRequest(session="s"), timeout=10)
        client.push(push, timeout=10)
    eventually(
        lambda: (
            run.value('traceml_records_dropped_total{rank="0",reason="malformed",run="test"}')
            == 3.0
        )
    )
    assert run.completed() == 50
    assert run.value('traceml_records_received_total{rank="0",run="test"}') == 50.0

"""The rank's calls against a real gRPC server, and against others that are none."""

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import grpc
import pytest

from traceml.rank import http2
from traceml.rank.channel import Channel, open_channel
from traceml.rank.http2 import DEADLINE_EXCEEDED, INTERNAL, NOT_FOUND, OK, UNAVAILABLE, Outcome
from traceml.rank.lookup import Lookup
from traceml.wire import TLS_CA_VARIABLE, TLS_CERT_VARIABLE, TLS_KEY_VARIABLE, TOKEN_FILE_VARIABLE

TOKEN = "open sesame"
LARGE = 5 * 2**20
CALL_SECONDS = 60.0
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
GOAWAY = b"\0\0\x08\x07\0\0\0\0\0" + b"\x7f\xff\xff\xff" + b"\0\0\0\0"

each_kind = pytest.mark.parametrize("kind", ["unix", "tcp", "token", "tls", "mutual"])
some_kinds = pytest.mark.parametrize("kind", ["unix", "token", "mutual"])


@dataclass
class Place:
    """Where a server can listen, and what a rank needs to reach it there."""

    kind: str
    endpoint: str
    credentials: Any = None

    @property
    def token(self) -> str:
        return f"Bearer {TOKEN}" if self.kind == "token" else ""

    @contextmanager
    def served(self) -> Iterator[list[str]]:
        """A gRPC server; what it was called with, by the paths of the calls."""
        calls: list[str] = []

        options = [("grpc.max_receive_message_length", 2 * LARGE), ("grpc.so_reuseport", 0)]
        server = grpc.server(ThreadPoolExecutor(2), options=options)
        server.add_generic_rpc_handlers([Handlers(self.token, calls)])
        address = self.endpoint.removeprefix("tcp://")
        if self.credentials is None:
            server.add_insecure_port(address)
        else:
            server.add_secure_port(address, self.credentials)
        server.start()
        try:
            yield calls
        finally:
            server.stop(None).wait()


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, token: str, calls: list[str]) -> None:
        self._token, self._calls = token, calls

    def service(self, details: Any) -> Any:
        self._calls.append(details.method)
        shown = dict(details.invocation_metadata).get("authorization", "")
        if shown != self._token or details.method not in ANSWERS:
            return None
        return grpc.unary_unary_rpc_method_handler(ANSWERS[details.method])


def refuse(_: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "nobody of this näme")
    raise AssertionError


MAY_ANSWER = threading.Event()


def answer_late(request: bytes, _: Any) -> bytes:
    MAY_ANSWER.wait(CALL_SECONDS)
    return request


ANSWERS: dict[str, Callable[[bytes, Any], bytes]] = {
    "/x/echo": lambda request, _: request,
    "/x/length": lambda request, _: str(len(request)).encode(),
    "/x/large": lambda request, _: request * LARGE,
    "/x/refuse": refuse,
    "/x/late": answer_late,
}


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> Place:
    if kind == "unix":
        return Place(kind, f"unix://{tmp_path}/s.sock")
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    if kind == "tcp":
        return Place(kind, endpoint)
    if kind == "token":
        (tmp_path / "token").write_text(f"{TOKEN}\n")
        monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
        return Place(kind, endpoint)
    certificates = request.getfixturevalue("certificates")
    certificate, key = (Path(file).read_bytes() for file in certificates("server"))
    ca = tmp_path / "ca.pem"
    monkeypatch.setenv(TLS_CA_VARIABLE, str(ca))
    if kind == "mutual":
        own, own_key = certificates("rank")
        monkeypatch.setenv(TLS_CERT_VARIABLE, own)
        monkeypatch.setenv(TLS_KEY_VARIABLE, own_key)
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=ca.read_bytes() if kind == "mutual" else None,
        require_client_auth=kind == "mutual",
    )
    return Place(kind, endpoint, credentials)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def started(channel: Channel, path: str = "/x/echo", message: bytes = b"hello") -> Channel:
    channel.start(path, message, CALL_SECONDS)
    return channel


def settle(channel: Channel, seconds: float = CALL_SECONDS) -> Outcome:
    """Advance until the call is over, which no step of it may keep us from."""
    while (outcome := channel.advance()) is None:
        channel.wait(seconds)
    return outcome


def call(channel: Channel, path: str = "/x/echo", message: bytes = b"hello") -> Outcome:
    return settle(started(channel, path, message))


def descriptor_of(channel: Channel) -> int:
    assert channel._link is not None
    return channel._link._connection._socket.fileno()


@each_kind
def test_calls_follow_each_other_on_one_connection(place: Place) -> None:
    channel = open_channel(place.endpoint)
    with place.served() as calls:
        for number in range(20):
            assert call(channel, message=b"%d" % number) == Outcome(OK, b"%d" % number)
            descriptor = descriptor_of(channel)
        assert descriptor_of(channel) == descriptor
        assert call(channel, message=b"") == Outcome(OK, b"")
        assert call(channel, "/x/refuse") == Outcome(NOT_FOUND)
        assert call(channel, "/x/nothing").status == 12
        assert len(calls) == 23
    channel.close()


@some_kinds
def test_messages_larger_than_any_window_arrive_whole(place: Place) -> None:
    channel = open_channel(place.endpoint)
    with place.served():
        message = random.Random(0).randbytes(LARGE)
        assert call(channel, message=message) == Outcome(OK, message)
        assert call(channel, "/x/length", message) == Outcome(OK, str(LARGE).encode())
        assert call(channel, "/x/large", b"x").reply == b"x" * LARGE
    channel.close()


@pytest.mark.parametrize("kind", ["unix"])
def test_a_reply_that_is_too_large_costs_the_call_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "MAX_REPLY_BYTES", 2**20)
    channel = open_channel(place.endpoint)
    with place.served():
        assert call(channel, "/x/large", b"x") == Outcome(UNAVAILABLE)
        assert call(channel).status == OK
    channel.close()


@some_kinds
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_descriptor_that_was_closed_is_not_used_again(place: Place, is_in_flight: bool) -> None:
    channel = open_channel(place.endpoint)
    with place.served():
        assert call(channel).status == OK
        with in_flight(channel, is_in_flight):
            os.close(descriptor_of(channel))
        assert call(channel).status == OK
    channel.close()


@some_kinds
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_descriptor_that_is_the_script_s_now_is_left_alone(
    place: Place, is_in_flight: bool
) -> None:
    channel = open_channel(place.endpoint)
    ours, other = socket.socketpair()
    other.send(b"for the script")
    with place.served(), other:
        assert call(channel).status == OK
        with in_flight(channel, is_in_flight):
            descriptor = descriptor_of(channel)
            os.dup2(ours.fileno(), descriptor)
        assert call(channel).status == OK
        assert descriptor_of(channel) != descriptor
        channel.close()
        ours.close()
        with socket.socket(fileno=descriptor) as theirs:
            assert theirs.recv(100) == b"for the script"
            other.setblocking(False)
            with pytest.raises(BlockingIOError):
                other.recv(100)


@contextmanager
def in_flight(channel: Channel, is_so: bool) -> Iterator[None]:
    """A call is under way meanwhile, and lost in the end."""
    if not is_so:
        yield
        return
    MAY_ANSWER.clear()
    assert started(channel, "/x/late").advance() is None
    try:
        yield
        assert settle(channel) == Outcome(UNAVAILABLE)
    finally:
        MAY_ANSWER.set()


@some_kinds
def test_a_server_that_comes_later_or_again_is_found(place: Place) -> None:
    channel = open_channel(place.endpoint)
    assert call(channel) == Outcome(UNAVAILABLE)
    for _ in range(2):
        with place.served():
            assert call(channel).status == OK  # also where the last one has gone since
        assert call(channel) == Outcome(UNAVAILABLE)


@pytest.mark.parametrize("kind", ["tcp"])
def test_all_addresses_of_a_name_are_tried(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    port = place.endpoint.rpartition(":")[2]
    of_name = [(socket.AF_INET6, ("::1", int(port))), (socket.AF_INET, ("127.0.0.1", int(port)))]
    monkeypatch.setattr(Lookup, "found", lambda _: list(of_name))
    channel = open_channel(f"tcp://localhost:{port}")
    with place.served():
        assert call(channel).status == OK
    assert call(channel) == Outcome(UNAVAILABLE)
    channel.close()


@pytest.mark.parametrize("kind", ["tcp"])
def test_a_name_is_looked_up_beside_and_one_that_does_not_exist_is_an_outcome(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def slow(host: str, *_: object, flags: int = 0, **__: object) -> list[Any]:
        if flags or host == "nowhere":
            raise socket.gaierror(-2, "not known")
        is_asked.set()
        may_answer.wait()
        port = place.endpoint.rpartition(":")[2]
        return [(socket.AF_INET, 0, 0, "", ("127.0.0.1", int(port)))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with place.served():
        channel = started(open_channel("tcp://somewhere:1"))
        assert channel.advance() is None
        is_asked.wait()
        assert channel.advance() is None
        may_answer.set()
        assert settle(channel).status == OK
        channel.close()
    assert call(open_channel("tcp://nowhere:1")) == Outcome(UNAVAILABLE)


@contextmanager
def answering(path: Path, *answers: bytes, then_closes: bool = False) -> Iterator[str]:
    """A server that says one of these to each who connects, whatever he says, and then nothing."""
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as served:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection = served.enter_context(listener.accept()[0])
                connection.recv(1)  # the call is made by then
                connection.sendall(answer)
                if then_closes:
                    connection.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            thread.join()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0",
        SETTINGS,
        SETTINGS + b"\0\x10\0\x01",
        SETTINGS + b"\0\0\x64\x01\x04\0\0\0\x01" + b"\x88",
        SETTINGS + b"\0\0\x01\x01\x04\0\0\0\x01" + b"\x88" + b"\0\x10\0\0\0\0\0\0\x01half",
    ],
)
def test_a_server_that_stops_halfway_keeps_nobody_waiting(tmp_path: Path, said: bytes) -> None:
    with answering(tmp_path / "s", said) as endpoint:
        channel = open_channel(endpoint)
        channel.start("/x/echo", b"hello" * 100_000, 0.3)
        begin = monotonic()
        assert channel.advance() is None
        assert monotonic() - begin < 0.3
        assert settle(channel, 0.05) == Outcome(DEADLINE_EXCEEDED)
        assert channel._link is None


def headers_frame(block: bytes, flags: int = 4) -> bytes:
    return len(block).to_bytes(3, "big") + bytes((1, flags)) + b"\0\0\0\x01" + block


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", UNAVAILABLE),
        (b"\xff" * 200_000, UNAVAILABLE),
        (SETTINGS + GOAWAY, UNAVAILABLE),
        (SETTINGS + b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07", UNAVAILABLE),  # a reset
        (SETTINGS + headers_frame(b"\x88", 5), UNAVAILABLE),  # no status
        (SETTINGS + headers_frame(b"\x88\0\x0bgrpc-status\x01x", 5), INTERNAL),
        (SETTINGS + headers_frame(b"\x88\0\x0bgrpc-status\x7f\x91\x4d" + b"5" * 10_000, 5), 55),
        (SETTINGS + headers_frame(b"\x88\0\x0bgrpc-status\x010", 5), INTERNAL),  # no message
    ],
)
def test_what_is_no_answer_is_an_outcome(tmp_path: Path, said: bytes, status: int) -> None:
    with answering(tmp_path / "s", said, then_closes=True) as endpoint:
        channel = open_channel(endpoint)
        assert call(channel).status == status
        channel.close()


def conversation(place: Place, tmp_path: Path) -> bytes:
    """All that a real server says to a caller."""
    heard = bytearray()

    def listen(data: bytes) -> bytes:
        heard.extend(data)
        return data

    channel = open_channel(place.endpoint)
    with place.served(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(http2.Plain, "unseal", lambda _, data: listen(data))
        assert call(channel, message=b"hello" * 10).status == OK
    channel.close()
    return bytes(heard)


@pytest.mark.parametrize("kind", ["unix"])
def test_whatever_a_server_says_nothing_is_raised(place: Place, tmp_path: Path) -> None:
    real, chance = conversation(place, tmp_path), random.Random(7)
    for _ in range(3_000):
        said = bytearray(real)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(said))
            said[at : at + chance.choice((0, 1, 1, 1, 9))] = chance.randbytes(chance.randint(0, 3))
        channel = started(Channel("unix:///nobody"), message=b"hello" * 10)
        channel._connect = lambda *_, said=said: http2.Link(  # type: ignore[method-assign]
            Said(bytes(said)),  # type: ignore[arg-type]
            http2.Plain(),
        )
        outcome = settle(channel)
        assert isinstance(outcome.status, int)


class Said:
    """A connection on which all has been said."""

    def __init__(self, data: bytes) -> None:
        self._data = [data]

    def send(self, data: bytes) -> int:
        return len(data)

    def receive(self) -> bytes:
        if not self._data:
            raise ConnectionResetError
        return self._data.pop()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("kind", ["unix"])
def test_a_connection_that_is_taken_back_between_calls_is_not_missed(
    place: Place, tmp_path: Path
) -> None:
    real = conversation(place, tmp_path)
    with answering(tmp_path / "s", real + GOAWAY, real) as endpoint:
        channel = open_channel(endpoint)
        assert [call(channel).status for _ in range(2)] == [OK, OK]
        channel.close()


IN_A_PROCESS = """
import os, signal, socket, sys
from traceml.rank.channel import open_channel
def call(message=b"hello"):
    channel.start("/x/echo", message, 60.0)
    while (outcome := channel.advance()) is None:
        channel.wait(60.0)
    return outcome.status, outcome.reply
def sockets():
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return [link for link in links if os.path.exists(link) and "socket:" in os.readlink(link)]
channel = open_channel(sys.argv[1])
"""


def in_a_process(place: Place, script: str) -> None:
    """Without torch, and without a gRPC whose threads a fork would leave behind."""
    code = IN_A_PROCESS + script + "assert not {'grpc', 'torch'} & set(sys.modules)\n"
    command = [sys.executable, "-W", "error", "-c", code, place.endpoint]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@some_kinds
def test_a_child_lets_go_of_the_connection_and_its_parent_goes_on_with_it(place: Place) -> None:
    with place.served():
        in_a_process(
            place,
            "assert call() == (0, b'hello')\n"
            "before, = sockets()\n"
            "channel.start('/x/echo', b'in flight', 60.0)\n"
            "outcome = channel.advance()\n"
            "for _ in range(3):\n"
            "    child = os.fork()\n"
            "    if child == 0:\n"
            "        channel.close()\n"
            "        del channel\n"
            "        os._exit(len(sockets()))\n"
            "    assert os.waitpid(child, 0)[1] == 0\n"
            "while outcome is None:\n"
            "    channel.wait(60.0)\n"
            "    outcome = channel.advance()\n"
            "assert outcome.reply == b'in flight'\n"
            "assert [call() for _ in range(3)] == [(0, b'hello')] * 3\n"
            "assert sockets() == [before]\n"
            "channel.close()\n",
        )


@pytest.mark.parametrize("kind", ["unix"])
def test_a_server_that_is_gone_is_no_signal_to_the_script(place: Place) -> None:
    in_a_process(
        place,
        "from traceml.rank.connection import Connection\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "path = sys.argv[1].removeprefix('unix://')\n"
        "with socket.socket(socket.AF_UNIX) as listener:\n"
        "    listener.bind(path); listener.listen()\n"
        "    connection = Connection(socket.AF_UNIX, path)\n"
        "    listener.accept()[0].close()\n"
        "try:\n"
        "    connection.send(b'hello')\n"
        "except BrokenPipeError:\n"
        "    connection.close()\n",
    )


@pytest.mark.parametrize("kind", ["unix"])
def test_what_the_script_has_closed_of_its_own_is_not_taken(place: Place) -> None:
    with place.served():
        in_a_process(
            place,
            "kept = os.dup(2)\n"
            "os.closerange(0, 3)\n"
            "assert call() == (0, b'hello')\n"
            "free = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]\n"
            "os.dup2(kept, 2)\n"
            "assert free == [0, 1, 2]\n"
            "channel.close()\n",
        )


@pytest.mark.parametrize("kind", ["tls"])
def test_only_a_server_that_proves_who_it_is_gets_a_call(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port = place.endpoint.rpartition(":")[2]
    with place.served() as calls:
        elsewhere = open_channel(f"tcp://localhost.localdomain:{port}")
        monkeypatch.setattr(Lookup, "found", lambda _: [(2, ("127.0.0.1", int(port)))])
        assert call(elsewhere) == Outcome(UNAVAILABLE)  # the certificate is another host's
        monkeypatch.setenv(TLS_CA_VARIABLE, str(tmp_path / "other.pem"))
        assert call(open_channel(place.endpoint)) == Outcome(UNAVAILABLE)
        assert calls == []


@pytest.mark.parametrize("kind", ["tcp"])
def test_a_connection_that_is_never_made_keeps_nobody_waiting(place: Place) -> None:
    port = int(place.endpoint.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port), backlog=0), ExitStack() as queue:
        for _ in range(4):  # more than it takes
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        channel = open_channel(place.endpoint)
        channel.start("/x/echo", b"hello", 0.3)
        assert settle(channel, 0.05) == Outcome(DEADLINE_EXCEEDED)


@pytest.mark.parametrize("kind", ["token"])
def test_a_training_that_logs_everything_does_not_see_our_calls(place: Place) -> None:
    with place.served():
        in_a_process(
            place,
            "import logging, threading\n"
            "from traceml.rank.http2 import THREAD_NAME\n"
            "logging.basicConfig(level=logging.DEBUG)\n"
            "thread = threading.Thread(target=call, name=THREAD_NAME)\n"
            "thread.start()\n"
            "thread.join()\n"
            "assert len(sockets()) == 1\n"
            "channel.close()\n",
        )

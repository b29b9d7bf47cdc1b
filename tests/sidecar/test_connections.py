"""A real server, and clients that hold on to their connections."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.launching import eventually
from traceml.sidecar.connections import LIMIT_SECONDS, MAX_CONNECTIONS, Stage
from traceml.sidecar.http import Server
from traceml.sidecar.listen import bind

REQUEST = b"GET /short HTTP/1.1\r\nhost: localhost\r\n\r\n"
HALF = REQUEST[:-4]
LARGE = 32 * 2**20  # more than the system keeps for a client that does not read


@dataclass
class Site:
    """A server in this process, and the connections to it."""

    listener: socket.socket
    held: ExitStack
    may_answer: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        routes = [Route("/short", self.short, methods=["GET", "POST"])]
        routes += [Route("/slow", self.slow), Route("/large", self.large)]
        self.server = Server(Starlette(routes=routes))
        self.thread = threading.Thread(target=self.server.answer, args=(self.listener,))
        self.thread.start()
        eventually(lambda: self.server.started)

    async def short(self, _: Request) -> Response:
        return PlainTextResponse("short\n")

    async def slow(self, _: Request) -> Response:
        await asyncio.to_thread(self.may_answer.wait, 30)
        return PlainTextResponse("slow\n")

    async def large(self, _: Request) -> Response:
        return Response(bytes(LARGE))

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(self.listener.getsockname(), timeout=30)
        self.held.enter_context(client)
        client.sendall(sent)
        return client

    def hold(self, count: int, sent: bytes = b"") -> list[socket.socket]:
        return [self.connect(sent) for _ in range(count)]

    @property
    def open(self) -> int:
        return len(self.server.server_state.connections)

    def stop(self) -> None:
        self.may_answer.set()
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("traceml.sidecar.http.LOOK_SECONDS", 0.1)
    with ExitStack() as held, bind("127.0.0.1", 0) as listener:
        site = Site(listener, held)
        yield site
        site.stop()


def is_closed(client: socket.socket) -> bool:
    """Whether the server has ended it, without waiting for that."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def answer(client: socket.socket) -> bytes:
    """What the server says, or nothing if it ends the connection."""
    client.settimeout(30)
    try:
        return client.recv(2**16)
    except ConnectionResetError:
        return b""


def test_a_scraper_gets_through_while_more_than_may_be_there_hold_a_connection(site: Site) -> None:
    site.hold(MAX_CONNECTIONS + 50)
    assert answer(site.connect(REQUEST)).startswith(b"HTTP/1.1 200")
    eventually(lambda: site.open <= MAX_CONNECTIONS)


def test_whoever_is_idle_for_longest_goes_first(site: Site) -> None:
    first, *others = site.hold(MAX_CONNECTIONS)
    eventually(lambda: site.open == MAX_CONNECTIONS)
    newcomer = site.connect()
    eventually(lambda: is_closed(first))
    assert not any(is_closed(each) for each in (*others, newcomer))


def test_who_was_answered_later_is_idle_for_less_long(site: Site) -> None:
    first, second, *_ = site.hold(MAX_CONNECTIONS)
    eventually(lambda: site.open == MAX_CONNECTIONS)
    first.sendall(REQUEST)
    assert answer(first).startswith(b"HTTP/1.1 200")
    site.connect()
    eventually(lambda: is_closed(second))
    assert not is_closed(first)


def test_who_is_in_the_middle_of_a_request_does_not_give_way(site: Site) -> None:
    asking = site.connect(HALF)
    eventually(lambda: site.open == 1)
    eventually(lambda: stages(site) == [Stage.ASKING])
    site.hold(MAX_CONNECTIONS + 10)
    asking.sendall(REQUEST[len(HALF) :])
    assert answer(asking).startswith(b"HTTP/1.1 200")


def stages(site: Site) -> list[Stage]:
    return [each.stage for each in site.server.server_state.connections]  # type: ignore[union-attr]


def test_who_waits_for_an_answer_does_not_give_way(site: Site) -> None:
    waiting = site.connect(REQUEST.replace(b"short", b"slow"))
    eventually(lambda: stages(site) == [Stage.ANSWERED])
    site.hold(MAX_CONNECTIONS + 10)
    eventually(lambda: site.open == MAX_CONNECTIONS)
    site.may_answer.set()
    assert answer(waiting).startswith(b"HTTP/1.1 200")


def test_where_all_are_busy_a_newcomer_is_turned_away_until_their_time_is_over(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.hold(MAX_CONNECTIONS, HALF)
    eventually(lambda: stages(site) == [Stage.ASKING] * MAX_CONNECTIONS)
    assert answer(site.connect(REQUEST)) == b""
    monkeypatch.setitem(LIMIT_SECONDS, Stage.ASKING, 0.1)
    eventually(lambda: answer(site.connect(REQUEST)).startswith(b"HTTP/1.1 200"))


@pytest.mark.parametrize(
    ("stage", "sent"),
    [
        (Stage.IDLE, b""),
        (Stage.ASKING, HALF),
        (Stage.ASKING, b"POST /short HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nhalf"),
        (Stage.ANSWERED, REQUEST.replace(b"short", b"slow")),
        (Stage.ANSWERED, REQUEST.replace(b"short", b"large")),
    ],
    ids=["never asks", "half a header", "half a body", "not answered", "never reads"],
)
def test_nobody_holds_a_connection_for_longer_than_it_may(
    stage: Stage, sent: bytes, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.connect(sent)
    eventually(lambda: stages(site) == [stage])
    monkeypatch.setitem(LIMIT_SECONDS, stage, 0.1)
    eventually(lambda: site.open == 0)


def test_a_request_that_trickles_in_byte_by_byte_has_no_more_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMIT_SECONDS, Stage.ASKING, 0.5)
    slow = site.connect(HALF)
    eventually(lambda: is_cut(slow))


def is_cut(client: socket.socket) -> bool:
    """Whether one byte more can no longer be sent."""
    try:
        client.sendall(b"x")
    except OSError:
        return True
    return False


def test_nonsense_costs_its_connection_and_not_a_line_in_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    chunked = b"POST /short HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    client = site.connect(chunked)
    assert answer(client).startswith(b"HTTP/1.1 200")
    client.sendall(b"this is no chunk\r\n")
    eventually(lambda: is_closed(client))
    assert answer(site.connect(b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert caplog.messages == []


def test_the_server_ends_whatever_is_held(site: Site) -> None:
    site.hold(3)
    site.hold(3, HALF)
    site.hold(3, REQUEST.replace(b"short", b"large"))
    site.connect(REQUEST)
    eventually(lambda: site.open == 10)
    site.stop()

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from traceml.sidecar.hosts import CheckedHost, is_loopback, local_names, names_this_machine

NAMES = frozenset({"localhost", "node-0"})
FOREIGN = "evil.example:9464"


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9464", "LocalHost.:9464", "run.localhost:9464", "127.0.0.1:9464",
     "127.0.0.1", "[::1]:9464", "[::1]", "10.1.2.3:9464", "[2001:db8::1]:9464", "Node-0:9464"],
)  # fmt: skip
def test_addresses_and_names_of_its_own_name_this_machine(host: str) -> None:
    assert names_this_machine(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [FOREIGN, "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9464", "",
     "evil.example:127.0.0.1", "[evil.example]:9464", "1.2.3:9464", ":9464", "notlocalhost",
     "node-0.evil.example"],
)  # fmt: skip
def test_other_names_do_not(host: str) -> None:
    assert not names_this_machine(host, NAMES)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"])
def test_an_address_that_only_this_machine_reaches_is_a_loopback_address(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "::", "0.0.0.0", "::ffff:10.0.0.1", "localhost", ""]
)
def test_others_are_not(address: str) -> None:
    assert not is_loopback(address)


def test_the_hosts_file_says_what_else_a_loopback_address_is_called(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(
        "# comment\n127.0.1.1  Node-0.example.com node-0 # a comment\n\n"
        "::1 ip6-localhost\n10.0.0.7 elsewhere\nnonsense\n"
    )
    named = {"node-0.example.com", "node-0", "ip6-localhost"}
    assert local_names(file) == {"localhost", socket.gethostname().lower(), *named}


def test_without_a_hosts_file_there_is_the_machine_s_name(tmp_path: Path) -> None:
    assert local_names(tmp_path / "none") == {"localhost", socket.gethostname().lower()}


def status(server: tuple[str, int] | None, host: str | None) -> int:
    """Of the answer to a request that came in at this address, and names that host."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nobody reads the request")

    headers = [] if host is None else [(b"host", host.encode("latin-1"))]
    scope = {"type": "http", "method": "GET", "server": server, "headers": headers}
    asyncio.run(CheckedHost(PlainTextResponse("well\n"))(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("reached", ["127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"])
def test_a_foreign_name_at_a_loopback_address_is_misdirected(reached: str) -> None:
    assert status((reached, 9464), FOREIGN) == 421


@pytest.mark.parametrize("name", ["localhost:9464", "127.0.0.1:9464", socket.gethostname()])
def test_a_name_of_this_machine_s_is_not(name: str) -> None:
    assert status(("127.0.0.1", 9464), name) == 200


@pytest.mark.parametrize("name", ["10.1.2.3:9464", "sidecar.training.svc:9464", "node-0:9464"])
def test_who_comes_over_the_network_may_use_any_name(name: str) -> None:
    assert status(("10.1.2.3", 9464), name) == 200


def test_a_client_of_old_that_names_nobody_is_answered() -> None:
    assert status(("127.0.0.1", 9464), None) == 200

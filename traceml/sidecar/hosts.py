"""By which names the sidecar is spoken to, as a guard against DNS rebinding.

A web page can have its own name resolve to a loopback address and then read what listens
there. So a request that came in at a loopback address has to name it by an address, or by
a name that no DNS decides on. Where a request came from elsewhere, any name may be right:
a service's in a cluster, a node's.
"""

import ipaddress
import socket
from functools import lru_cache
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from traceml.files import read_named

HOSTS_FILE = Path("/etc/hosts")
_MAX_BYTES = 2**20
_REMEMBERED = 64  # a scraper says the same each time


class CheckedHost:
    """Lets requests through that name this machine, and answers others with 421."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._names = local_names(HOSTS_FILE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if self._is_misdirected(scope):
            refusal = PlainTextResponse("not the name of this machine\n", status_code=421)
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_misdirected(self, scope: Scope) -> bool:
        reached = scope.get("server")
        if reached is None or not is_loopback(reached[0]):
            return False
        name = next((value for key, value in scope["headers"] if key == b"host"), None)
        return name is not None and not names_this_machine(name.decode("latin-1"), self._names)


@lru_cache(_REMEMBERED)
def names_this_machine(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header is an address or one of these names, whatever its port."""
    name = _without_port(host).lower().removesuffix(".")
    return _address(name) is not None or name in names or name.endswith(".localhost")


def local_names(hosts: Path) -> frozenset[str]:
    """This machine's name, and what its hosts file calls a loopback address."""
    try:
        lines = read_named(hosts, _MAX_BYTES).decode("utf-8", "replace").lower().splitlines()
    except OSError:
        lines = []
    entries = [line.partition("#")[0].split() for line in lines]
    named = {name for address, *names in filter(None, entries) if is_loopback(address)
             for name in names}  # fmt: skip
    return frozenset({"localhost", socket.gethostname().lower(), *named})


@lru_cache(_REMEMBERED)
def is_loopback(address: str) -> bool:
    """Whether this is an address that only this machine can reach."""
    found = _address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return found is not None and (mapped or found).is_loopback


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

"""Where an endpoint can be reached: the addresses behind its name."""

import socket
import threading
from typing import Any

_UNIX = "unix://"
_TCP = "tcp://"

Address = tuple[int, Any]  # the family, and what a socket of it connects to


def is_tcp(endpoint: str) -> bool:
    """Whether it is on the network, where more is to be shown than on a unix socket."""
    return endpoint.startswith(_TCP)


def host_and_port(endpoint: str) -> tuple[str, str]:
    """Of an endpoint on the network; an IPv6 host without its brackets."""
    host, _, port = endpoint.removeprefix(_TCP).rpartition(":")
    return host.strip("[]"), port


class Lookup:
    """Finds addresses; what has to ask others for that does so on a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        self._found: list[Address] = []
        self._done = threading.Event()
        if not is_tcp(endpoint):
            self._settle([(socket.AF_UNIX, endpoint.removeprefix(_UNIX))])
            return
        self._name = host_and_port(endpoint)
        try:
            self._ask(socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):  # not a number
            threading.Thread(target=self._look_up, name="traceml-lookup", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Sleep until they are found, or known not to be; whether that is so."""
        return self._done.wait(seconds)

    def found(self) -> list[Address]:
        """Those to try, the best first."""
        return list(self._found)

    def _look_up(self) -> None:
        try:
            self._ask()
        except (OSError, UnicodeError):  # no such name, or none at all
            self._settle([])

    def _ask(self, flags: int = 0) -> None:
        answers = socket.getaddrinfo(*self._name, type=socket.SOCK_STREAM, flags=flags)
        self._settle([(answer[0], answer[4]) for answer in answers])

    def _settle(self, found: list[Address]) -> None:
        self._found = found
        self._done.set()

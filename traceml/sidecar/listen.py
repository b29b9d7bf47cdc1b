"""The port that /metrics is served on."""

import errno
import socket
import time

from traceml.sidecar import handover

PORT = 9464  # as OpenTelemetry's Prometheus exporter has it
_TRIES = 100
_WAY_SECONDS = 3.0  # for all of a search


def bind(host: str, port: int) -> socket.socket:
    """Listen at the first free port from `port` on; OSError if there is none.

    A sidecar of this user's that only lingers at one of them makes way.
    """
    deadline = time.monotonic() + _WAY_SECONDS
    candidates = range(port, min(port + _TRIES, 65_536)) if port else (0,)
    for candidate in candidates:
        found = _listen(host, candidate, deadline)
        if found is not None:
            return found
    raise OSError(errno.EADDRINUSE, "all ports that were tried are in use")


def bind_at_once(host: str, port: int) -> socket.socket | None:
    """Listen at this very port, if nobody has it; OSError if nobody could."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return None


def _listen(host: str, port: int, deadline: float) -> socket.socket | None:
    """Listen there, if need be in the place of a sidecar whose run is over."""
    found = bind_at_once(host, port)
    if found is None and handover.ask(port):
        while found is None and time.monotonic() < deadline:
            time.sleep(0.02)
            found = bind_at_once(host, port)
    return found


def address(host: str, port: int) -> str:
    """host:port, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""The port that /metrics is served on."""

import errno
import socket

PORT = 9464  # as OpenTelemetry's Prometheus exporter has it
_TRIES = 100


def bind(host: str, port: int) -> socket.socket:
    """Listen at the first free port from `port` on; OSError if there is none."""
    candidates = range(port, min(port + _TRIES, 65_536)) if port else (0,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in candidates:
        try:
            return socket.create_server((host, candidate), family=family, backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == candidates[-1]:
                raise
    raise AssertionError("unreachable: the last candidate returned or raised")


def address(host: str, port: int) -> str:
    """host:port, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

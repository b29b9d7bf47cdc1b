"""The port that /metrics is served on."""

import errno
import http.client
import socket
import time

PORT = 9464  # as OpenTelemetry's Prometheus exporter has it
YIELD_PATH = "/-/yield"  # asks a sidecar that only lingers to make way
_TRIES = 100
_ASK_SECONDS = 1.0
_WAY_SECONDS = 3.0


def bind(host: str, port: int) -> socket.socket:
    """Listen at the first free port from `port` on; OSError if there is none."""
    candidates = range(port, min(port + _TRIES, 65_536)) if port else (0,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in candidates:
        try:
            return _listen(host, candidate, family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == candidates[-1]:
                raise
    raise AssertionError("unreachable: the last candidate returned or raised")


def _listen(host: str, port: int, family: int) -> socket.socket:
    """Listen there, if need be in the place of a sidecar whose run is over."""
    deadline: float | None = None
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if deadline is None and _makes_way(host, port):
                deadline = time.monotonic() + _WAY_SECONDS
            if deadline is None or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _makes_way(host: str, port: int) -> bool:
    """Whether a sidecar is there that only waits for a last scrape, and ends now."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(reachable, port, timeout=_ASK_SECONDS)
    try:
        connection.request("POST", YIELD_PATH)
        return connection.getresponse().status == http.client.ACCEPTED
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def address(host: str, port: int) -> str:
    """host:port, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

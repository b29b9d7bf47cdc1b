"""A gRPC channel that is silent and unaware of forks, whatever the environment says."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traceml.wire import (
    TLS_CA_VARIABLE,
    TLS_CERT_VARIABLE,
    TLS_KEY_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_KEY,
    authorization,
)

# With fork support gRPC hangs or prints at every DataLoader worker; the sender
# keeps calls out of forks itself. Read when gRPC starts, so set just for that.
_QUIET = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "NONE"}

_TCP = "tcp://"

_OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def open_channel(endpoint: str) -> Any:
    """A channel to the sidecar; does not connect yet. Call it on the main thread."""
    with _environment(_QUIET):
        import grpc

        target = endpoint.removeprefix(_TCP)
        authority = _file(TLS_CA_VARIABLE) if endpoint.startswith(_TCP) else None
        if authority is None:
            return grpc.insecure_channel(target, options=_OPTIONS)
        own = grpc.ssl_channel_credentials(
            authority, _file(TLS_KEY_VARIABLE), _file(TLS_CERT_VARIABLE)
        )
        return grpc.secure_channel(target, own, options=_OPTIONS)


def call_metadata(endpoint: str) -> tuple[tuple[str, str], ...]:
    """What every call shows of this process: its token, if it has one and needs it there."""
    token = _file(TOKEN_FILE_VARIABLE) if endpoint.startswith(_TCP) else None
    return () if token is None else ((TOKEN_KEY, authorization(token.decode().strip())),)


def _file(variable: str) -> bytes | None:
    path = os.environ.get(variable)
    return Path(path).read_bytes() if path else None


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

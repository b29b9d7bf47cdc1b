"""A gRPC channel that is silent and unaware of forks, whatever the environment says."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# With fork support gRPC hangs or prints at every DataLoader worker; the sender
# keeps calls out of forks itself. Read when gRPC starts, so set just for that.
_QUIET = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "NONE"}

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

        return grpc.insecure_channel(endpoint, options=_OPTIONS)


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

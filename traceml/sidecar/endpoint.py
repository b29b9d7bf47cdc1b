"""Where ranks report: the address is taken, and a socket that somebody removed is made again."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceml.sidecar.access import Access
from traceml.sidecar.socket_file import identity, is_served, make_folder, path_of

_LOOK_SECONDS = 1.0  # between two looks whether the socket is still there
_GRACE_SECONDS = 1.0  # for calls in flight when it is not

log = logging.getLogger(__name__)


class Endpoint:
    """A gRPC server at an address; another one of its kind once the socket's path is gone."""

    def __init__(self, new_server: Callable[[], Any], access: Access) -> None:
        self._new_server = new_server
        self._access = access
        self._server: Any = None
        self._endpoint = ""
        self._socket: tuple[int, int] | None = None  # which one it is, of a unix endpoint

    def bind(self, endpoint: str) -> str:
        """Take this address; returns where it can be reached. OSError if it can't be had."""
        path = path_of(endpoint)
        if path is not None:
            if is_served(path):
                raise OSError(f"cannot listen at {endpoint}: another sidecar does")
            make_folder(path.parent)
        self._server, self._endpoint = self._new_server(), endpoint
        address = endpoint.removeprefix("tcp://")
        port = self._add_port(address)
        if path is None:
            return f"tcp://{address.rsplit(':', 1)[0]}:{port}"
        self._socket = identity(path)
        return endpoint

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.start()

    async def stop(self) -> None:
        """Answer no more."""
        await self._server.stop(grace=None)

    async def keep_reachable(self) -> None:
        """Listen again at the same path whenever the socket was removed, until cancelled."""
        path, problem = path_of(self._endpoint), ""
        while path is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._socket is not None and identity(path) == self._socket:
                continue
            try:
                await self._listen_again(path)
            except OSError as error:
                if str(error) != problem:
                    log.warning("the socket was removed, and can't be made again: %s", error)
                problem = str(error)
            else:
                log.warning("the socket was removed, and is made again: %s", path)
                problem = ""

    async def _listen_again(self, path: Path) -> None:
        """Ranks that are connected come back; what was not acknowledged they send again."""
        if is_served(path):
            raise OSError(f"another sidecar listens at {path}")
        make_folder(path.parent)
        # gRPC removes the path of a listener that it closes, so the new one comes after that.
        await self._server.stop(_GRACE_SECONDS)
        self.bind(self._endpoint)
        await self.start()

    def _add_port(self, address: str) -> int:
        credentials = self._access.credentials()
        mask = os.umask(0o077)  # the socket is for this user alone
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError:  # it knows the reason and keeps it to itself
            raise OSError(f"cannot listen at {self._endpoint}{_reason(address)}") from None
        finally:
            os.umask(mask)


def _reason(address: str) -> str:
    """Why nobody can listen there, as far as trying it again tells."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        if address.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.bind(address.removeprefix("unix://"))
            return ""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, int(port)), family=family).close()
    except OSError as error:
        return f": {error.strerror or error}"
    return ": its certificate or key can't be used"

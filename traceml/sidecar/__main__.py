"""The sidecar as `traceml run` starts it: LISTENER_FD is its argument.

Standard input brings the configuration in its first line and, when the run is
over, how it ended. Its end without that word means that the launcher died. The
one line on standard output says that the summary is written, and what it says.
"""

import asyncio
import json
import os
import socket
import sys
from contextlib import suppress

from traceml.sidecar.config import Config
from traceml.sidecar.launch import remove_endpoint
from traceml.sidecar.logs import log_to
from traceml.sidecar.process import Final, Sidecar


def main() -> None:
    """Serve the run described on standard input."""
    asyncio.run(_serve())
    # Everything is written; what is left is the teardown of libraries.
    os._exit(0)


async def _serve() -> None:
    log_to(sys.stderr)
    control = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(control), sys.stdin
    )
    config = Config.from_json((await control.readline()).decode())
    listener = socket.socket(fileno=int(sys.argv[1]))
    await Sidecar(config, listener).serve(_Launcher(), control)
    remove_endpoint(config.endpoint)


class _Launcher:
    """Hears one thing of us: the end."""

    def ready(self, endpoint: str) -> None:
        """It has chosen the endpoint itself."""

    def finished(self, final: Final) -> None:
        """Tell it what to show."""
        with suppress(OSError):  # it may be gone
            print(json.dumps({"text": final.text, "problem": final.problem}), flush=True)

    def lingers(self, seconds: float) -> None:
        """It has returned."""


if __name__ == "__main__":
    main()

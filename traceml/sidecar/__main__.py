"""The sidecar as `traceml run` starts it: LISTENER_FD is its argument.

Standard input brings the configuration in its first line and, when the run is
over, how it ended. Its end without that word means that the launcher died.
"""

import asyncio
import logging
import os
import socket
import sys

from traceml.sidecar.config import Config
from traceml.sidecar.launch import remove_endpoint
from traceml.sidecar.process import Sidecar


def main() -> None:
    """Serve the run described on standard input."""
    asyncio.run(_serve())
    # Everything is written; what is left is the teardown of libraries.
    os._exit(0)


async def _serve() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    control = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(control), sys.stdin
    )
    config = Config.from_json((await control.readline()).decode())
    listener = socket.socket(fileno=int(sys.argv[1]))
    try:
        await Sidecar(config, listener).serve(control)
    finally:
        remove_endpoint(config.endpoint)


if __name__ == "__main__":
    main()

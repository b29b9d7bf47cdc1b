"""Starting a sidecar from another process, and telling it how the run ended."""

import json
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from traceml import isolated
from traceml.sidecar.config import Config, Ending

_FINISH_SECONDS = 10.0


def socket_endpoint() -> str:
    """A new unix socket address in a folder that only this user can enter."""
    return f"unix://{tempfile.mkdtemp(prefix='traceml-')}/sidecar.sock"


def remove_endpoint(endpoint: str) -> None:
    """Take the socket and its folder away again."""
    shutil.rmtree(Path(endpoint.removeprefix("unix://")).parent, ignore_errors=True)


class SidecarProcess:
    """The launcher's hold on its sidecar: a pipe that carries two lines."""

    def __init__(self, config: Config, listener: socket.socket) -> None:
        with (config.directory / "sidecar.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*isolated.command("traceml.sidecar.__main__"), str(listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # the terminal's Ctrl-C is for the script
            )
        self._tell(config.to_json())

    def finish(self, ending: Ending) -> bool:
        """Have the summary written; False if the sidecar is no longer able to."""
        self._tell(json.dumps({"state": ending.state, "exit_code": ending.exit_code}))
        try:
            self._process.communicate(timeout=_FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode == 0

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(line.encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            return  # it is dead; `finish` says so

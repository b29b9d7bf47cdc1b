"""Starting a sidecar from another process, keeping it alive, and ending it with the run."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from traceml import isolated
from traceml.files import is_part, opened
from traceml.sidecar.config import Config, Ending
from traceml.sidecar.linger import MAX_LINGER_SECONDS
from traceml.sidecar.logs import LOG_NAME, open_log
from traceml.signals import TO_STOP

MAX_RESTARTS = 5
_BACKOFF_SECONDS = 0.2  # before the first restart; each further one waits twice as long
_UNABLE_SECONDS = 5.0
_FINISH_SECONDS = 10.0


_PREFIX = "traceml-"  # of the folders we make for sockets


def socket_endpoint() -> str:
    """A new unix socket address in a folder that only this user can enter."""
    return f"unix://{tempfile.mkdtemp(prefix=_PREFIX)}/sidecar.sock"


def remove_endpoint(endpoint: str) -> None:
    """Take away a socket that `socket_endpoint` made, with its folder; any other stays."""
    socket_file = Path(endpoint.removeprefix("unix://"))
    folder = socket_file.parent
    if not _is_made_here(folder):
        return
    with suppress(OSError):  # something of somebody else's is in it, or it is gone
        _empty(folder, socket_file.name)
        folder.rmdir()


def _empty(folder: Path, socket_name: str) -> None:
    """Take away the socket, what was left beside it, and what nobody finished writing there."""
    with opened(folder) as held:
        for name in held.names():
            if name == socket_name or name.startswith(f"{socket_name}.") or is_part(name):
                held.remove(name)


def _is_made_here(folder: Path) -> bool:
    try:
        return folder.name.startswith(_PREFIX) and folder.parent == Path(tempfile.gettempdir())
    except FileNotFoundError:  # no folder on this machine can be written to
        return False


@dataclass(frozen=True, slots=True)
class Told:
    """The sidecar's last word: the summary's text, and why it is not on disk, if so."""

    text: str
    problem: str


class SidecarProcess:
    """The launcher's hold on its sidecar: two pipes, and the port it serves on."""

    def __init__(self, config: Config, listener: socket.socket) -> None:
        self.config = config
        self._listener = listener  # kept, so that the port is ours while a sidecar is started again
        self._restart_at: float | None = None
        self._start(config)

    def tend(self) -> tuple[float | None, str]:
        """Start the sidecar again if it died; how soon to look again, and what to tell the user."""
        if self._restart_at is not None:
            return self._restart_when_due(self._restart_at), ""
        if self._is_given_up or self._process.poll() is None:
            return None, ""
        self._process.communicate()
        died = f"the sidecar died ({_cause(self._process.returncode)})"
        restarts = self.config.restarts
        if restarts >= MAX_RESTARTS:
            self._listener.close()
            log = self.config.directory / LOG_NAME
            return None, (
                f"{died} for the {restarts + 1}th time and is not started again; the training goes "
                f"on, and the summary will hold what was told; see {log}"
            )
        pause = _BACKOFF_SECONDS * 2**restarts
        self._restart_at = monotonic() + pause
        when = f" in {pause:.0f} s" if pause >= 1 else ""
        return pause, f"{died} and is started again{when}"

    def _restart_when_due(self, due: float) -> float | None:
        if monotonic() < due:
            return due - monotonic()
        try:
            config = replace(self.config, restarts=self.config.restarts + 1)
            self._start(config)
        except OSError:  # the system is out of something: later, perhaps
            self._restart_at = monotonic() + _UNABLE_SECONDS
            return _UNABLE_SECONDS
        self.config, self._restart_at = config, None
        return None

    def finish(self, ending: Ending) -> Told | None:
        """Have the summary written; None if the sidecar is no longer able to.

        It may serve the last values for a while after that, until `leave`.
        """
        self._listener.close()
        if self._restart_at is not None or self._process.poll() is not None:
            return None
        self._tell(json.dumps({"state": ending.state, "exit_code": ending.exit_code}))
        told = self._last_word()
        if told is None:
            self._process.kill()
            self._process.communicate()
        return told

    def leave(self, *, wait: bool) -> None:
        """Let it serve the last values alone, or wait until somebody has read them."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what it was told last may not have arrived
                pipe.close()
        if wait:
            self._wait()
        self._process.returncode = 0  # nobody waits for it any more, which is no reason to warn

    def _wait(self) -> None:
        """Until it is gone; whoever is told to stop meanwhile has done all else.

        The signals of a job are held, so one that came a moment ago counts, too.
        """
        ends_at = monotonic() + _seconds_to_serve(self.config)
        while self._process.poll() is None and (left := ends_at - monotonic()) > 0:
            received = signal.sigtimedwait({*TO_STOP, signal.SIGCHLD}, left)
            if received is not None and received.si_signo != signal.SIGCHLD:
                return

    @property
    def _is_given_up(self) -> bool:
        return self._listener.fileno() < 0

    def _start(self, config: Config) -> None:
        with open_log(self.config.directory) as log:
            self._process = subprocess.Popen(
                [*isolated.command("traceml.sidecar.__main__"), str(self._listener.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[self._listener.fileno()],
                env={"GRPC_VERBOSITY": "NONE", **os.environ},  # its lines would fill the log
                start_new_session=True,  # the terminal's Ctrl-C is for the script
            )
        self._tell(config.to_json())

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(line.encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            return  # it is dead; `tend` and `finish` find out

    def _last_word(self) -> Told | None:
        pipe = self._process.stdout
        assert pipe is not None
        ready, _, _ = select.select([pipe], [], [], _FINISH_SECONDS)
        line = pipe.readline() if ready else b""
        try:
            return Told(**json.loads(line))
        except ValueError:  # it died before, or in the middle of it
            return None


def _seconds_to_serve(config: Config) -> float:
    chosen = config.linger_seconds
    return (MAX_LINGER_SECONDS if chosen is None else chosen) + _FINISH_SECONDS


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"

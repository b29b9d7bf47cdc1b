"""Telling a signal to the launcher alone from one that the whole job got."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE_SECONDS = 0.2  # a job's processes may be signalled one after the other
_LOOK_SECONDS = 0.005
_PARENT_SECONDS = 0.5


class Witness:
    """A process in the script's group that blocks every signal and does nothing.

    Whatever is sent to the group, or to each process of the job, stays pending there,
    where the kernel tells of it. Nobody can ask the script itself: it may have handled it.
    """

    def __enter__(self) -> "Witness":
        self._pid = _start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._pid)

    def got(self, number: int) -> bool:
        """Whether a signal that the launcher got has come here, too."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _is_pending(self._pid, number):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        used, self._pid = self._pid, _start()
        _end(used)
        return True


def _start() -> int | None:
    """A new witness; None where the system has no process left for it."""
    launcher = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        try:
            _be_there(launcher)
        finally:
            os._exit(0)
    return pid


def _be_there(launcher: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 (numbers, not paths)
        with suppress(OSError):  # whoever reads the launcher's output must not wait for us
            os.close(int(descriptor))
    while os.getppid() == launcher:
        time.sleep(_PARENT_SECONDS)


def _end(pid: int | None) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _is_pending(pid: int | None, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("ShdPnd:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False

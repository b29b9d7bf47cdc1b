"""The user's script as a child process: its exit code, signals and terminal are its own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from traceml.cli.witness import Witness
from traceml.signals import SENT_TO_JOBS

Mask: TypeAlias = set[int] | set[signal.Signals]

_WATCHED = SENT_TO_JOBS | {signal.SIGCHLD}
_STOPPING_SECONDS = 0.2


@contextmanager
def signals_held() -> Iterator[Mask]:
    """Meanwhile no signal for the script ends or disturbs this process; yields the mask before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield before
    finally:
        while signal.sigtimedwait(SENT_TO_JOBS, 0) is not None:
            continue  # a Ctrl-C that has done its work must not end the launcher as well
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_script(
    command: Sequence[str],
    environment: Mapping[str, str],
    mask: Mask,
    tend: Callable[[], float | None],
) -> int:
    """Run to the end; returns the exit code as a shell gives it, 128 + N for signal N.

    The signals of a job are to be held; the script gets those of `mask` blocked. `tend` is
    called whenever a child may have died, and again after the seconds it returns.
    """
    with Witness() as witness:
        child = subprocess.Popen(
            command,
            env=environment,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
        tend()  # also beside a script that has ended already
        while child.poll() is None:
            number = _next_signal(tend())
            if number not in (None, signal.SIGCHLD):
                _pass_on(number, child, witness)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _next_signal(seconds: float | None) -> int | None:
    if seconds is None:
        return signal.sigwaitinfo(_WATCHED).si_signo
    received = signal.sigtimedwait(_WATCHED, max(seconds, 0.0))
    return None if received is None else received.si_signo


def _pass_on(number: int, child: "subprocess.Popen[bytes]", witness: Witness) -> None:
    """Let the script have it, unless it has it already."""
    if not witness.got(number):
        child.send_signal(number)
    if number == signal.SIGTSTP and _is_stopped(child.pid):
        os.kill(os.getpid(), signal.SIGSTOP)  # as the shell expects of a job that was stopped


def _is_stopped(pid: int) -> bool:
    """Whether the script lets itself be stopped."""
    deadline = time.monotonic() + _STOPPING_SECONDS
    options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitid(os.P_PID, pid, options) is not None:
                return True
            time.sleep(0.005)
    return False

"""The user's script as a child process: its exit code, signals and terminal are its own."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

# What the launcher passes on. A terminal's Ctrl-C reaches the script by itself.
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_FROM_KERNEL = 0x80  # si_code of a signal that the terminal sent to the whole group


def run_script(
    command: Sequence[str],
    environment: Mapping[str, str],
    tend: Callable[[], float | None] = lambda: None,
) -> int:
    """Run to the end; returns the exit code as a shell gives it, 128 + N for signal N.

    `tend` is called whenever a child may have died, and again after the seconds it returns.

    Signals are waited for rather than handled, because only so it can be told
    whether one came from the terminal (the script has it already) or from a
    `kill` of the launcher alone (the script has not).
    """
    watched = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        while child.poll() is None:
            received = _next_signal(watched, tend())
            if received is None:
                continue
            if received.si_signo != signal.SIGCHLD and received.si_code != _FROM_KERNEL:
                child.send_signal(received.si_signo)
    finally:
        _discard_pending(_PASSED_ON)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _next_signal(
    signals: set[signal.Signals], seconds: float | None
) -> signal.struct_siginfo | None:
    if seconds is None:
        return signal.sigwaitinfo(signals)
    return signal.sigtimedwait(signals, max(seconds, 0.0))


def _discard_pending(signals: set[signal.Signals]) -> None:
    """Drop a Ctrl-C that has done its work, so that it does not end the launcher as well."""
    while os.name == "posix" and signal.sigtimedwait(signals, 0) is not None:
        continue

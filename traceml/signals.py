"""The signals that the processes of a training job may be sent."""

import signal

# What the kernel decides alone, or tells a process of its own doing.
_NOT_SENT = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGURG,
    signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU,
}  # fmt: skip

_JOB_CONTROL = {signal.SIGTSTP, signal.SIGCONT}

# Faults are among them: they are sent to a process that hangs, to learn where it is.
SENT_TO_JOBS = frozenset(signal.valid_signals() - _NOT_SENT)
TO_STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
NO_CONCERN_OF_A_SIDECAR = SENT_TO_JOBS - TO_STOP - _JOB_CONTROL

"""The one line TraceML may write into a training's terminal."""

import sys


def not_tracing(error: Exception) -> None:
    """Say that there will be no figures of this process, where nobody else could."""
    if sys.stderr is not None:
        reason = f"{type(error).__name__}: {error}"
        print(f"traceml: not tracing this process: {reason}", file=sys.stderr)

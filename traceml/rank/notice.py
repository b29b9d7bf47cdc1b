"""The one line TraceML may write into a training's terminal."""

import sys


def not_tracing(error: Exception) -> None:
    """Say that there will be no figures of this process, where nobody else could."""
    if sys.stderr is not None:
        print(f"traceml: not tracing this process: {error!r}", file=sys.stderr)

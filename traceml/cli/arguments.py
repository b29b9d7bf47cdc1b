"""Where TraceML's own arguments end and the script's begin."""

from collections.abc import Sequence


def split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is TraceML's, and what stands behind the first `--` or `--args`."""
    for index, argument in enumerate(argv):
        if argument in ("--", "--args"):
            return argv[:index], argv[index + 1 :]
    return argv, ()

"""torchrun, except that it ends as its workers did: `python -m traceml.rank.elastic`.

torchrun itself turns every failure into exit code 1 and adds a traceback of its
own. Here the first rank to fail decides, and its own traceback is the only one.
"""

import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def main() -> int:
    """Run workers as torchrun would; returns the exit code of the first that failed."""
    try:
        run.run(run.parse_args(sys.argv[1:]))
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return as_shell(failure.exitcode)
    except SignalException as received:
        return as_shell(-int(received.sigval))
    return 0


def as_shell(code: int) -> int:
    """A process's exit code as a shell gives it: 128 + N for signal N."""
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

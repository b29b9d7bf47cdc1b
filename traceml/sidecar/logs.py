"""The sidecar's own log: short, and bounded like everything else."""

import logging
from pathlib import Path
from typing import TextIO

MAX_LINES = 2_000


class _Bounded(logging.Filter):
    """Lets so many lines through, says that it was the last, and then nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_LINES

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line is still to be written."""
        self._left -= 1
        if self._left == 0:
            record.msg, record.args, record.exc_info = "this log is full", (), None
        return self._left >= 0


def log_to(where: TextIO | Path) -> None:
    """Send all log lines of this process there."""
    handler = (
        logging.FileHandler(where, encoding="utf-8")
        if isinstance(where, Path)
        else logging.StreamHandler(where)
    )
    handler.addFilter(_Bounded())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.raiseExceptions = False  # a full disk is no reason to print tracebacks
    logging.basicConfig(level=logging.INFO, handlers=[handler])

"""The sidecar's own log: short, and bounded like everything else."""

import logging
import os
from pathlib import Path
from typing import BinaryIO, TextIO

from traceml.files import append_to, opened
from traceml.printable import printable

LOG_NAME = "sidecar.log"  # in the folder of a run

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


class _Printable(logging.Formatter):
    """Who reads a log in a terminal sees what ranks say of themselves, and nothing else."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback's."""
        return printable(super().format(record))


def open_log(directory: Path) -> BinaryIO:
    """The log in a run's folder; nothing where that can't be had, which is no reason to end."""
    try:
        with opened(directory) as folder:
            return os.fdopen(append_to(folder, LOG_NAME), "ab", buffering=0)
    except OSError:
        return Path(os.devnull).open("ab")


def log_to(where: TextIO) -> None:
    """Send all log lines of this process there."""
    handler = logging.StreamHandler(where)
    handler.addFilter(_Bounded())
    handler.setFormatter(_Printable("%(asctime)s %(levelname)s %(message)s"))
    logging.raiseExceptions = False  # a full disk is no reason to print tracebacks
    logging.basicConfig(level=logging.INFO, handlers=[handler])

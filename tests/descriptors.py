"""Processes that have no file descriptor left, for as long as a test wants it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_STANDARD_STREAMS = 3


@contextmanager
def descriptors_left(left: int, pid: int | None = None) -> Iterator[None]:
    """This process, or another, can open so many files and no more."""
    pid = pid or os.getpid()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (_limit(pid, left), hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def _limit(pid: int, left: int) -> int:
    """The limit under which so many numbers are free: a new descriptor takes the lowest."""
    if left == 0:
        return _STANDARD_STREAMS  # whatever is closed meanwhile
    listed = list(Path(f"/proc/{pid}/fd").iterdir())
    used = {int(each.name) for each in listed if os.path.lexists(each)}  # the listing's own is gone
    free = (number for number in count() if number not in used)
    return next(number for index, number in enumerate(free) if index == left)


def limited(command: list[str], limit: int) -> list[str]:
    """The command, which may not have more descriptors than that."""
    return ["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", *command]

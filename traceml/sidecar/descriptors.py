"""File descriptors: having enough of them, and going on when there are none for a while."""

import asyncio
import logging
import resource
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from traceml.files import is_shortage

log = logging.getLogger(__name__)

ENOUGH = 8192  # ranks, scrapers and files together, many times over
RETRY_SECONDS = 3.0  # twice that is less than the launcher waits for the summary

_PAUSE_SECONDS = 0.1

Result = TypeVar("Result")


def raise_limit() -> None:
    """Have as many as the system lets us, up to ENOUGH."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # some systems have a lower limit that they don't tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def patiently(
    work: Callable[[], Awaitable[Result]], seconds: float = RETRY_SECONDS
) -> Result:
    """What `work` returns; begun again for so long while it fails for want of a descriptor."""
    deadline = time.monotonic() + seconds
    is_first = True
    while True:
        try:
            return await work()
        except OSError as error:
            if not is_shortage(error) or time.monotonic() > deadline:
                raise
            if is_first:
                log.warning("tried again for %.0f s: %s", seconds, error)
        is_first = False
        await asyncio.sleep(_PAUSE_SECONDS)

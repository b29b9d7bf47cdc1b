"""What the process itself costs, read on the sender's thread."""

import os
from pathlib import Path

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int | None:
    """The resident set, or None where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return None


def cpu_seconds() -> float:
    """User and system time of this process so far."""
    times = os.times()
    return times.user + times.system

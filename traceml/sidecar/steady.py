"""The sidecar's one clock: unix time that goes on evenly, whoever sets the system's clock.

Entries carry its time and liveness is judged by it. The system's clock is asked once, at the
start, and after that only to show a time to others.
"""

import time
from collections.abc import Callable

_SET_SECONDS = 1.0  # off by less, the system's clock was not set but drifts


class SteadyClock:
    """Unix time at its start plus what has passed since; it does not go back over a restart."""

    def __init__(
        self,
        not_before: float = 0.0,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._epoch = max(wall(), not_before) - monotonic()

    def __call__(self) -> float:
        """The time now."""
        return self._epoch + self._monotonic()

    def shift_seconds(self) -> float:
        """What the system's clock is ahead by, if somebody has set it; 0 otherwise."""
        shift = round(self._wall() - self(), 1)
        return shift if abs(shift) >= _SET_SECONDS else 0.0

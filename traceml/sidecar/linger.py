"""Who reads /metrics, and how long it is worth waiting for them once the run is over."""

import asyncio
import logging
import threading
from dataclasses import dataclass

log = logging.getLogger(__name__)

MAX_LINGER_SECONDS = 60.0
_MIN_LINGER_SECONDS = 5.0
_MAX_SCRAPERS = 100


@dataclass(slots=True)
class _Scraper:
    seen_at: float
    visits: int = 1
    interval: float | None = None
    is_prometheus: bool = False  # it says so; someone who looks once by hand does not

    def is_awaited(self, now: float) -> bool:
        """Whether it reads regularly, and has not stayed away for much longer than it used to."""
        patience = max(2 * _wait_for(self), MAX_LINGER_SECONDS)
        return (self.is_prometheus or self.visits > 1) and now - self.seen_at <= patience


class Linger:
    """Waits for scrapers: whoever comes with Prometheus's header, or more than once.

    They are answered by a thread of their own.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Scraper] = {}
        self._awaited: set[str] | None = None  # None while the run goes on
        self._over = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the run is over and only its last values are served."""
        return self._awaited is not None

    def visit(self, who: str, is_prometheus: bool, now: float) -> None:
        """Someone reads /metrics."""
        with self._lock:
            self._remember(who, is_prometheus, now)
            if self._awaited is None:
                return
            self._awaited.discard(who)
            if not self._awaited:
                self.leave()

    def leave(self) -> None:
        """Wait no longer."""
        self._over.set()

    async def wait(self, patience: float) -> None:
        """Wait until everybody who reads the run's values has read the last ones."""
        log.info("serving the last values for %.0f s, or until they are read", patience)
        await asyncio.to_thread(self._over.wait, patience)

    def patience(self, expected: bool, limit: float, now: float) -> float:
        """The run is over: how long to wait for scrapers from now on.

        `expected` says that someone was told where to look, even if nobody came yet.
        """
        with self._lock:
            regular = {who: each for who, each in self._known.items() if each.is_awaited(now)}
            self._awaited = set(regular)
        if not regular:
            return limit if expected else 0.0
        return min(limit, max(_wait_for(scraper) for scraper in regular.values()))

    def _remember(self, who: str, is_prometheus: bool, now: float) -> None:
        scraper = self._known.get(who)
        if scraper is not None:
            scraper.interval = now - scraper.seen_at
            scraper.seen_at = now
            scraper.visits += 1
            scraper.is_prometheus |= is_prometheus
        elif self._has_room(now):
            self._known[who] = _Scraper(now, is_prometheus=is_prometheus)

    def _has_room(self, now: float) -> bool:
        """Whether there is a place for another, be it that of one who is not waited for."""
        if len(self._known) < _MAX_SCRAPERS:
            return True
        passing = [who for who, each in self._known.items() if not each.is_awaited(now)]
        if passing:
            del self._known[min(passing, key=lambda who: self._known[who].seen_at)]
        return bool(passing)


def _wait_for(scraper: _Scraper) -> float:
    if scraper.interval is None:
        return MAX_LINGER_SECONDS
    return max(2 * scraper.interval, _MIN_LINGER_SECONDS)

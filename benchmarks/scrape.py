"""Scrapers that come all at once, as several Prometheus servers would."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection

_PATH = "/metrics"
_TIMEOUT_SECONDS = 10.0


@dataclass(slots=True)
class Scrapes:
    """How long each scrape took, and how much the last one brought."""

    seconds: list[float] = field(default_factory=list)
    body_bytes: int = 0


def scrape(
    port: int, headers: Mapping[str, str], scrapers: int, rounds: int, pause_seconds: float
) -> Scrapes:
    """Each round all scrapers ask at the same moment, over connections that stay open."""
    scrapes = Scrapes()
    together = threading.Barrier(scrapers)

    def work() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
        _get(connection, headers)  # connects
        for _ in range(rounds):
            time.sleep(pause_seconds)
            together.wait()
            begin = time.perf_counter()
            body = _get(connection, headers)
            scrapes.seconds.append(time.perf_counter() - begin)
            scrapes.body_bytes = len(body)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(scrapers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(scrapes.seconds) != scrapers * rounds:
        raise SystemExit("scrape: a scraper failed")
    return scrapes


def _get(connection: HTTPConnection, headers: Mapping[str, str]) -> bytes:
    connection.request("GET", _PATH, headers=dict(headers))
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise SystemExit(f"scrape: {response.status} {response.reason}")
    return body

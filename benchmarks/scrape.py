"""Scrapers that come all at once, as several Prometheus servers would, and the ranks meanwhile."""

import multiprocessing
import random
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from queue import Empty

import numpy as np

from benchmarks.feed import feed
from benchmarks.report import Table, progress
from benchmarks.running import Running, running_sidecar

RANKS = 64
SCRAPERS = 10
STEPS_A_SECOND = 12.0
GAP_SECONDS = (1.0, 1.5)  # a Snapshot is made each second

_FILL_SECONDS = 10.0  # until the window is full
_PATH = "/metrics"
_TIMEOUT_SECONDS = 10.0
_CHUNK_BYTES = 2**20

_COLUMNS = ("p50", "p99", "longest")
_FORMATS = {
    "classic text": {"Accept": "text/plain;version=0.0.4"},
    "OpenMetrics, gzip": {
        "Accept": "application/openmetrics-text;version=1.0.0",
        "Accept-Encoding": "gzip",
    },
}


@dataclass(slots=True)
class Scrapes:
    """How long each scrape took, and how much the last one brought."""

    seconds: list[float] = field(default_factory=list)
    body_bytes: int = 0


@dataclass(slots=True)
class Pushes:
    """How long each rank's calls take, as the process that makes them tells."""

    told: "Queue[list[float]]"

    def since_last_asked(self) -> list[float]:
        seconds: list[float] = []
        while True:
            try:
                seconds += self.told.get_nowait()
            except Empty:
                return seconds


def table(rounds: int) -> Table:
    """What scrapers wait, and what the ranks wait for their answers beside them."""
    rows = []
    with running_sidecar(RANKS) as sidecar, _reporting(sidecar) as pushes:
        time.sleep(_FILL_SECONDS)
        pushes.since_last_asked()
        progress("sidecar: no scrapers")
        time.sleep(rounds)
        rows.append(["nobody", "-", "-", "-", "-", *_cells(pushes.since_last_asked())])
        for name, headers in _FORMATS.items():
            progress(f"sidecar: {SCRAPERS} scrapers, {rounds} rounds, {name}")
            scrapes = scrape(sidecar.port, headers, rounds)
            body, waits = str(scrapes.body_bytes), _cells(scrapes.seconds)
            rows.append([name, body, *waits, *_cells(pushes.since_last_asked())])
    columns = ("asked for", "body, bytes", *_COLUMNS, *(f"a push: {name}" for name in _COLUMNS))
    return Table("Scrapes", _how(rounds), columns, rows)


def _cells(seconds: Sequence[float]) -> list[str]:
    return [f"{value:.1f}" for value in np.percentile(seconds, [50, 99, 100]) * 1e3]


def _how(rounds: int) -> str:
    return (
        f"{RANKS} simulated ranks report {STEPS_A_SECOND:.0f} steps a second each, in turn and as "
        "often as real ones, from a process of their own, to a sidecar as `traceml run` starts "
        f"it. {SCRAPERS} scrapers ask for /metrics at the same moment over connections kept open, "
        f"{rounds} rounds, each {GAP_SECONDS[0]:.1f} to {GAP_SECONDS[1]:.1f} s after the one "
        "before: so every round meets another Snapshot, and many are answered while one is "
        "made. From the request to the last byte, in milliseconds; a push "
        "from a rank's call to the sidecar's answer."
    )


@contextmanager
def _reporting(sidecar: Running) -> Iterator[Pushes]:
    """Ranks that report meanwhile, from a process of their own: no lock is shared with us."""
    context = multiprocessing.get_context("spawn")
    told: Queue[list[float]] = context.Queue()
    arguments = (sidecar.endpoint, RANKS, STEPS_A_SECOND, told)
    feeder = context.Process(target=feed, args=arguments, daemon=True)
    feeder.start()
    try:
        yield Pushes(told)
        if not feeder.is_alive():
            raise SystemExit("sidecar: the simulated ranks failed")
    finally:
        feeder.terminate()
        feeder.join()


def scrape(port: int, headers: Mapping[str, str], rounds: int) -> Scrapes:
    """Each round all scrapers ask at the same moment, over connections that stay open."""
    scrapes = Scrapes()
    with ExitStack() as stack:
        scrapers = [Scraper(port, headers) for _ in range(SCRAPERS)]
        for scraper in scrapers:
            stack.callback(scraper.connection.close)
        _ask_all(scrapers)  # connects
        gaps = random.Random(0)
        for _ in range(rounds):
            time.sleep(gaps.uniform(*GAP_SECONDS))
            scrapes.seconds += _ask_all(scrapers)
        scrapes.body_bytes = scrapers[0].body_bytes
    return scrapes


def _ask_all(scrapers: Sequence["Scraper"]) -> list[float]:
    """How long each waited; one thread serves all, so that none waits for another's turn."""
    begin = time.perf_counter()
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        for scraper in scrapers:
            scraper.ask()
            selector.register(scraper.connection, selectors.EVENT_READ, scraper)
        while len(waits) < len(scrapers):
            ready = selector.select(_TIMEOUT_SECONDS)
            if not ready:
                raise SystemExit("scrape: no answer")
            for key, _ in ready:
                if key.data.has_answer():
                    waits.append(time.perf_counter() - begin)
                    selector.unregister(key.fileobj)
    return waits


class Scraper:
    """Asks for /metrics over one connection, and does no more with the answer than it must."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        lines = [f"GET {_PATH} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self._answer = bytearray()
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.body_bytes = 0

    def ask(self) -> None:
        self._answer.clear()
        self.connection.sendall(self._request)

    def has_answer(self) -> bool:
        """Take what has come; whether that was the last of it."""
        self._answer += self.connection.recv(_CHUNK_BYTES)
        head, gap, body = self._answer.partition(b"\r\n\r\n")
        if not gap:
            return False
        status, *fields = bytes(head).decode().lower().split("\r\n")
        if " 200 " not in status:
            raise SystemExit(f"scrape: {status}")
        self.body_bytes = int(dict(field.split(": ", 1) for field in fields)["content-length"])
        return len(body) == self.body_bytes

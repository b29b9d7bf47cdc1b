"""What a job of many nodes costs its Prometheus, TraceML's rules and all."""

import json
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from benchmarks.feed import Ranks
from benchmarks.processes import ROOT
from benchmarks.report import Table, mebibytes, progress
from benchmarks.running import running_sidecar
from traceml.sidecar.listen import bind

RANKS_PER_NODE = 8
JOBS = (8, 64, 256, 1024)
STEPS_A_SECOND = 12.0  # on each rank
SCRAPE_SECONDS = 15

_RULES = ROOT / "deploy" / "prometheus"
_RANK = re.compile(r'\brank="(\d+)"')
_COLUMNS = (
    "ranks", "nodes", "series", "samples a second", "rules: one evaluation", "CPU of a core",
    "resident",
)  # fmt: skip


def tables(quick: bool) -> Iterator[Table]:
    """One job after the other, each with a Prometheus of its own."""
    seconds = SCRAPE_SECONDS * (2.0 if quick else 4.0)
    jobs = JOBS[:2] if quick else JOBS
    with running_sidecar(RANKS_PER_NODE) as sidecar, _nodes(sidecar.port) as nodes:
        ranks = Ranks(sidecar.endpoint, RANKS_PER_NODE)
        threading.Thread(
            target=ranks.push_for, args=(float("inf"), STEPS_A_SECOND), daemon=True
        ).start()
        time.sleep(SCRAPE_SECONDS)  # until the window is full
        rows = [_row(job, nodes, seconds) for job in jobs]
        body = len(nodes.exposition(0))
    yield Table("A job's Prometheus", _how(seconds, body), _COLUMNS, rows)


def _how(seconds: float, body: int) -> str:
    return (
        f"A real sidecar with {RANKS_PER_NODE} simulated ranks, whose exposition ({body} bytes in "
        "classic text) a small server tells again under other ranks, once a node. A real "
        f"Prometheus scrapes all nodes every {SCRAPE_SECONDS} s and evaluates all rules as often, "
        f"for {seconds:.0f} s. CPU and resident set of Prometheus, recorded series counted; the "
        "rules' time is that of its last evaluation of all groups. What it takes when it holds "
        "hours of samples is not in this."
    )


class _Nodes(ThreadingHTTPServer):
    """Tells what one sidecar says as if it were many."""

    def __init__(self, sidecar_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._source = f"http://127.0.0.1:{sidecar_port}/metrics"
        self._lock = threading.Lock()
        self._text, self._until = "", 0.0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def exposition(self, node: int) -> bytes:
        """The sidecar's latest, with the ranks of this node."""
        first = node * RANKS_PER_NODE
        text = _RANK.sub(lambda found: f'rank="{int(found[1]) + first}"', self._latest())
        return text.replace('node="0"', f'node="{node}"').encode()

    def _latest(self) -> str:
        with self._lock:
            if time.monotonic() > self._until:
                with urllib.request.urlopen(self._source) as answer:
                    self._text = answer.read().decode()
                self._until = time.monotonic() + 1.0
            return self._text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Nodes

    def do_GET(self) -> None:
        body = self.server.exposition(int(self.path.strip("/")))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _nodes(sidecar_port: int) -> Iterator[_Nodes]:
    server = _Nodes(sidecar_port)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()


def _row(ranks: int, nodes: _Nodes, seconds: float) -> list[str]:
    count = ranks // RANKS_PER_NODE
    progress(f"job: {ranks} ranks on {count} nodes, {seconds:.0f} s")
    with _prometheus(nodes.address, count) as server:
        time.sleep(SCRAPE_SECONDS)  # all are found, and scraped once
        cpu, begin = server.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        share = (server.cpu_seconds() - cpu) / (time.monotonic() - begin)
        if server.value('sum(up{job="traceml"})') != count:
            raise SystemExit("job: not every node could be scraped")
        samples = server.value("sum(scrape_samples_scraped{job='traceml'})") / SCRAPE_SECONDS
        rules = server.value("sum(prometheus_rule_group_last_duration_seconds)")
        series = server.value('count({__name__=~".*traceml_.*"})')
        resident = server.process.memory_info().rss
    return [
        str(ranks), str(count), f"{series:.0f}", f"{samples:.0f}", f"{rules * 1e3:.0f} ms",
        f"{share:.1%}", mebibytes(resident),
    ]  # fmt: skip


@dataclass(frozen=True)
class _Server:
    pid: int
    address: str

    @cached_property
    def process(self) -> psutil.Process:
        return psutil.Process(self.pid)

    def cpu_seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def value(self, expression: str) -> float:
        asked = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{asked}") as answer:
            (found,) = json.load(answer)["data"]["result"]
        return float(found["value"][1])


@contextmanager
def _prometheus(address: str, nodes: int) -> Iterator[_Server]:
    program = shutil.which("prometheus")
    if program is None:
        raise SystemExit("job: no prometheus is installed")
    with bind("127.0.0.1", 0) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    targets = [
        {"targets": [address], "labels": {"__metrics_path__": f"/{node}", "instance": f"n{node}"}}
        for node in range(nodes)
    ]
    interval = f"{SCRAPE_SECONDS}s"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": interval, "evaluation_interval": interval},
                    "rule_files": [str(file) for file in _RULES.glob("traceml-*.yml")],
                    "scrape_configs": [
                        {"job_name": "traceml", "static_configs": targets},
                        {"job_name": "itself", "static_configs": [{"targets": [own]}]},
                    ],
                }
            )
        )
        process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
             f"--web.listen-address={own}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield _Server(process.pid, own)
        finally:
            process.terminate()
            process.wait()

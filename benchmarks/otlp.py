"""What sending through OTLP costs the sidecar, and what a collector that goes away does to it."""

import os
import re
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.feed import Ranks
from benchmarks.report import Table, mebibytes, progress
from benchmarks.running import Running, running_sidecar
from traceml.sidecar.listen import bind

RANKS = 8
BATCH = 31  # a tick's worth of a rank's steps when 8 ranks together make 1 000 a second
_INTERVAL_SECONDS = 1.0  # sixty times as often as is usual
_COLLECTOR = Path(sysconfig.get_path("purelib")) / "rotel" / "rotel-agent"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some time of a sidecar's life."""

    name: str
    cpu_share: float
    resident_bytes: int
    sent: int
    lost: int
    slowest_push_seconds: float


def tables(quick: bool) -> Iterator[Table]:
    """One sidecar that sends nothing, one whose collector goes away and comes back."""
    seconds = 5.0 if quick else 60.0
    rows = [_row(stretch) for stretch in (_alone(seconds), *_through_an_outage(seconds))]
    how = (
        f"A sidecar fed by {RANKS} simulated ranks with about 1 000 rank-steps a second, an export "
        f"every {_INTERVAL_SECONDS:.0f} s over gRPC to a real collector (rotel), each stretch "
        f"{seconds:.0f} s. CPU and resident set of the sidecar; data points sent and lost in the "
        "stretch, as /metrics counts them; the slowest of all calls of the ranks."
    )
    columns = ("", "CPU of a core", "resident at its end", "sent", "lost", "slowest push")
    yield Table("Through OTLP", how, columns, rows)


def _alone(seconds: float) -> Stretch:
    with running_sidecar(RANKS) as sidecar:
        return _stretch("nothing is sent", sidecar, Ranks(sidecar.endpoint, RANKS), seconds)


def _through_an_outage(seconds: float) -> Iterator[Stretch]:
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    with _environment(port), running_sidecar(RANKS) as sidecar:
        ranks = Ranks(sidecar.endpoint, RANKS)
        with _collector(port):
            yield _stretch("the collector is there", sidecar, ranks, seconds)
        yield _stretch("it is gone", sidecar, ranks, seconds)
        with _collector(port):
            yield _stretch("it is back", sidecar, ranks, seconds)


def _stretch(name: str, sidecar: Running, ranks: Ranks, seconds: float) -> Stretch:
    progress(f"otlp: {name}, {seconds:.0f} s")
    begin, cpu = time.monotonic(), sidecar.cpu_seconds()
    sent, lost = _counted(sidecar)
    slowest = 0.0
    while time.monotonic() < begin + seconds:
        slowest = max(slowest, *ranks.push(BATCH))
        time.sleep(0.25)
    share = (sidecar.cpu_seconds() - cpu) / (time.monotonic() - begin)
    sent_now, lost_now = _counted(sidecar)
    return Stretch(name, share, sidecar.resident_bytes(), sent_now - sent, lost_now - lost, slowest)


def _row(of: Stretch) -> list[str]:
    resident, slowest = mebibytes(of.resident_bytes), f"{of.slowest_push_seconds * 1e3:.0f} ms"
    return [of.name, f"{of.cpu_share:.1%}", resident, str(of.sent), str(of.lost), slowest]


def _counted(sidecar: Running) -> tuple[int, int]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{sidecar.port}/metrics") as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError:  # not ready yet
        text = ""
    found = dict(
        re.findall(r'^traceml_otlp_(sent|lost)_total\{.*signal="metrics".*\} (\S+)$', text, re.M)
    )
    return round(float(found.get("sent", 0))), round(float(found.get("lost", 0)))


@contextmanager
def _collector(port: int) -> Iterator[None]:
    if not _COLLECTOR.exists():
        raise SystemExit('otlp: no collector; `pip install "rotel>=0.0.1a1"` brings one')
    listen = ["--otlp-grpc-endpoint", f"127.0.0.1:{port}", "--otlp-http-endpoint", "127.0.0.1:0"]
    process = subprocess.Popen(
        [str(_COLLECTOR), "start", *listen, "--exporter", "blackhole"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _environment(port: int) -> Iterator[None]:
    own = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_METRIC_EXPORT_INTERVAL": str(round(_INTERVAL_SECONDS * 1000)),
    }
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]

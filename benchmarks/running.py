"""A real sidecar process, started as `traceml run` starts it."""

import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from traceml.sidecar.config import Config, Ending, RunIdentity
from traceml.sidecar.launch import SidecarProcess, remove_endpoint, socket_endpoint
from traceml.sidecar.listen import bind

_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Running:
    """A sidecar that is up."""

    endpoint: str
    port: int
    directory: Path
    launched: SidecarProcess
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        """Its resident set now."""
        return int(self.process.memory_info().rss)

    def journal_bytes(self) -> int:
        """What its journal takes on disk."""
        return sum(file.stat().st_size for file in (self.directory / "journal").iterdir())

    def finish(self) -> tuple[float, float]:
        """End the run; seconds until the summary was written, and until the process was gone."""
        begin, begin_ns = time.monotonic(), time.time_ns()
        if self.launched.finish(Ending("completed", 0)) is None:
            raise SystemExit((self.directory / "sidecar.log").read_text(encoding="utf-8"))
        self.process.wait()
        gone = time.monotonic() - begin
        written_ns = (self.directory / "final_summary.html").stat().st_mtime_ns
        return (written_ns - begin_ns) / 1e9, gone


@contextmanager
def running_sidecar(ranks: int, interval_seconds: float = 1.0) -> Iterator[Running]:
    """A sidecar for so many ranks; gone when the context is left, finished or not."""
    endpoint = socket_endpoint()
    with tempfile.TemporaryDirectory() as name, bind("127.0.0.1", 0) as listener:
        directory = Path(name)
        run = RunIdentity("bench", uuid.uuid4().hex, ("bench",), time.time(), ranks)
        launched = SidecarProcess(
            Config(run, directory, endpoint, interval_seconds, linger_seconds=0), listener
        )
        process = psutil.Process(_pid(directory))
        port = int(listener.getsockname()[1])
        try:
            yield Running(endpoint, port, directory, launched, process)
        finally:
            if process.is_running():
                launched.finish(Ending("interrupted", None))
            launched.leave(wait=False)
            remove_endpoint(endpoint)


def _pid(directory: Path) -> int:
    """Waits until the sidecar has told that it serves."""
    announced = directory / "sidecar.json"
    deadline = time.monotonic() + _START_SECONDS
    while not announced.exists():
        if time.monotonic() > deadline:
            raise SystemExit((directory / "sidecar.log").read_text(encoding="utf-8"))
        time.sleep(0.02)
    return int(json.loads(announced.read_text(encoding="utf-8"))["pid"])

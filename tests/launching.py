"""Running the command line for real, and waiting for what should come of it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
import psutil

from traceml.report.schema import FILE

SCRIPTS = Path(__file__).parent / "scripts"
DEADLINE_SECONDS = 120.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Finished:
    """What a run left behind."""

    exit_code: int
    stdout: str
    stderr: str
    directory: Path

    @property
    def summary(self) -> dict[str, Any]:
        """What was written at the end; it keeps to its schema in every run."""
        document: dict[str, Any] = json.loads(
            (self.directory / "final_summary.json").read_text(encoding="utf-8")
        )
        jsonschema.validate(document, json.loads(FILE.read_text()))
        return document

    @property
    def ranks(self) -> dict[int, dict[str, Any]]:
        return {rank["rank"]: rank for rank in self.summary["ranks"]}


class Launcher:
    """`traceml` in a folder, with a free port; everything it started ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                kill_with_descendants(process.pid)
            process.communicate()

    @property
    def run_directory(self) -> Path:
        return self.folder / "logs" / "test"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "traceml", *arguments]

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None, port: int | None = 0
    ) -> "subprocess.Popen[str]":
        """Start `traceml run` with these arguments."""
        own = ["--run-name", "test"]
        own += [] if port is None else ["--metrics-port", str(port)]
        return self.popen(self.command("run", *own, *arguments), environment)

    def popen(
        self, command: list[str], environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def finish(self, process: "subprocess.Popen[str]") -> Finished:
        """Wait for the end of a run."""
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        return Finished(process.returncode, stdout, stderr, self.run_directory)

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Finished:
        """`traceml run` to its end."""
        return self.finish(self.start(*arguments, environment=environment))

    def call(self, *arguments: str) -> Finished:
        """Any other `traceml` command to its end."""
        return self.finish(self.popen(self.command(*arguments)))

    def start_sidecar(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """Start `traceml sidecar` with these arguments; it ends when it is told to."""
        own = ["--run-name", "test", "--metrics-port", "0", "--linger", "0"]
        return self.popen(self.command("sidecar", *own, *arguments), environment)

    def sidecar(self) -> dict[str, Any]:
        """The running sidecar's own description, once it is there."""
        file = self.run_directory / "sidecar.json"
        return eventually(lambda: json.loads(file.read_text()) if file.exists() else None)

    def metrics(self) -> str:
        """What /metrics says now."""
        return fetch(self.sidecar()["metrics"])

    def value(self, series: str) -> float | None:
        """The value of a series, such as traceml_ranks_reporting{run="test"}; None without it."""
        for line in self.metrics().splitlines():
            if line.startswith(f"{series} "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def completed(self) -> int:
        """How many steps are completed, as /metrics says."""
        return int(self.value('traceml_steps_completed_total{run="test"}') or 0)

    def kill_sidecar(self) -> None:
        """End the sidecar as the system would for want of memory, and wait for the next one."""
        before = self.sidecar()["pid"]
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self.sidecar()["pid"] != before)


def kill_with_descendants(pid: int) -> None:
    process = psutil.Process(pid)
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            one.kill()


def fetch(url: str, headers: Mapping[str, str] | None = None) -> str:
    request = urllib.request.Request(url, headers=dict(headers or {}))
    with urllib.request.urlopen(request, timeout=10) as response:
        body: bytes = response.read()
        return body.decode()


def eventually(look: Callable[[], Found | None], seconds: float = 60.0) -> Found:
    """What `look` finds, as soon as it finds it; an error of the network counts as nothing."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found = look()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not seen within {seconds} s: {look}")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"

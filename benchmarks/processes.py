"""Running a script from beginning to end, timed, and with the memory of all it started."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from benchmarks.report import progress

ROOT = Path(__file__).parents[1]
SCRIPTS = Path(__file__).parent / "scripts"

_SAMPLE_SECONDS = 0.5
_SIGN_OF_LIFE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended; clock readings are CLOCK_MONOTONIC, as a script's own are."""

    began_at: float
    ended_at: float
    memory: Sequence[dict[int, int]]  # samples of resident bytes by process

    def beside(self, training: int) -> list[int]:
        """Resident bytes of all processes but the training one, while that lived."""
        return [
            sum(size for pid, size in sample.items() if pid != training)
            for sample in self.memory
            if training in sample
        ]


def traced(script: Path, arguments: Sequence[str], logs: Path, processes: int = 1) -> list[str]:
    """The command that runs a script under `traceml run`."""
    flags = ["--logs-dir", str(logs), "--metrics-port", "0", "--nproc-per-node", str(processes)]
    return [sys.executable, "-m", "traceml", "run", *flags, str(script), "--", *arguments]


def run(command: Sequence[str], output: Path, what: str) -> Ended:
    """Run to the end; what it prints goes to a file, and is shown if it fails."""
    with output.open("wb") as log:
        began_at = time.monotonic()
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=_environment(), cwd=output.parent
        )
        # A thread looks at the memory, because a wait with a timeout polls: up to 50 ms late.
        with _Watch(process.pid, what) as watch:
            exit_code = process.wait()
            ended_at = time.monotonic()
    if exit_code != 0:
        sys.stderr.write(output.read_text(encoding="utf-8", errors="replace"))
        raise SystemExit(f"{what}: {' '.join(command)} ended with {exit_code}")
    return Ended(began_at, ended_at, watch.samples)


def _environment() -> dict[str, str]:
    """Ours, but with no setting of TraceML in it, and with compiled modules kept."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TRACEML_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**ours, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@dataclass(slots=True)
class _Watch:
    pid: int
    what: str
    samples: list[dict[int, int]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "_Watch":
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        shown = time.monotonic()
        while not self._over.wait(_SAMPLE_SECONDS):
            self.samples.append(resident(self.pid))
            if time.monotonic() - shown > _SIGN_OF_LIFE_SECONDS:
                shown = time.monotonic()
                progress(f"{self.what}: still running")


def resident(pid: int) -> dict[int, int]:
    """Resident bytes of a process and all below it; one that just ended is left out."""
    sizes = {}
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return {}
    for process in family:
        try:
            sizes[process.pid] = process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return sizes

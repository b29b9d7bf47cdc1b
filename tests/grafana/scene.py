"""Two real runs of two ranks, one with a planted fault, watched by a real Prometheus."""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.schedule import Schedule, Segment
from tests import prometheus
from tests.grafana.variables import Span
from tests.launching import Launcher, eventually
from tests.nvml import stub
from tests.receiver import Received, grpc_receiver
from traceml.cli.main import main

ROOT = Path(__file__).parents[2]
WORKLOAD = ROOT / "benchmarks" / "accuracy" / "workload.py"
PLANTED, HEALTHY = "planted", "healthy"
STEPS = 20_000  # more than anybody waits for


@dataclass(frozen=True)
class Scene:
    """What somebody with a Grafana would have."""

    server: str
    received: Received  # the traces that exemplars lead to
    logs: Path
    began: float

    @property
    def span(self) -> Span:
        """All of it."""
        return Span(self.began, time.time())

    def kill_sidecar(self, run: str) -> None:
        """As the system would for want of memory; the launcher starts another."""
        file = self.logs / run / "sidecar.json"
        before = eventually(lambda: json.loads(file.read_text()) if file.exists() else None)
        os.kill(before["pid"], signal.SIGKILL)
        eventually(lambda: json.loads(file.read_text())["pid"] != before["pid"])


@contextmanager
def staged(
    launcher: Launcher, program: str, segments: Sequence[Segment], rate_window: str = "10s"
) -> Iterator[Scene]:
    """The planted run goes through these segments; the other one is healthy all the time."""
    folder = launcher.folder
    rules = folder / "rules.yml"
    assert main(["rules", f"--rate-window={rate_window}", "--output", str(rules)]) == 0
    stub.build(folder)
    machine = stub.Machine(folder / "machine")
    with ExitStack() as stack:
        received, port = stack.enter_context(grpc_receiver())
        environment = {
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "LD_LIBRARY_PATH": str(folder),  # GPUs that are not there
            "NVML_STUB": str(machine.file),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }
        targets = prometheus.discovered(folder / "targets-*.json")
        server = stack.enter_context(prometheus.running(program, folder, targets, rules=[rules]))
        began = time.time()
        for run, course in ((HEALTHY, ()), (PLANTED, segments)):
            _start(launcher, run, (*course, Segment(STEPS)), environment)
            eventually((folder / f"targets-{run}.json").exists)  # so the planted one is the newer
        yield Scene(server, received, folder / "logs", began)


def _start(
    launcher: Launcher, run: str, course: Sequence[Segment], environment: dict[str, str]
) -> None:
    file = launcher.folder / f"{run}.json"
    file.write_text(Schedule(run, 2, tuple(course)).to_json())
    launcher.popen(
        launcher.command(
            "run", "--run-name", run, "--metrics-port", "0", "--nproc-per-node=2",
            "--sd-file", str(launcher.folder / f"targets-{run}.json"), str(WORKLOAD),
            "--", "--schedule", str(file), "--out", str(launcher.folder / f"{run}-measured.json"),
        ),
        environment,
    )  # fmt: skip

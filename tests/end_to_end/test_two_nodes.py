"""A job on two nodes for real: torchrun with --nnodes=2, a sidecar each, one Prometheus."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.grafana import boards
from tests.grafana.variables import Filled
from tests.launching import SCRIPTS, Launcher, eventually
from tests.nodes import Node, two_nodes
from traceml.cli.main import main
from traceml.rank import inject
from traceml.sidecar.listen import bind
from traceml.wire import ENDPOINT_VARIABLE

DELAY_SECONDS = 0.05
SCRAPE_SECONDS = 1
CONFIG = {
    "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "1s"},
    "rule_files": ["rules.yml"],
}

CHOSEN = Filled(
    {"run": "job", "runs": "job", "rank": ".*", "phase": "forward",
     "__rate_interval": "10s", "__range": "60s"}
)  # fmt: skip

Vector = list[dict[str, Any]]


def free_port() -> int:
    """One that the nodes have free, too: they are this machine, or empty."""
    with bind("0.0.0.0", 0) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass
class Job:
    """Two nodes, what runs on them, and Prometheus on the first."""

    nodes: tuple[Node, Node]
    launcher: Launcher
    promtool: str
    metrics: int = field(default_factory=free_port)
    rendezvous: int = field(default_factory=free_port)
    server: int = field(default_factory=free_port)
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def start_node(self, node: Node, ranks: int, *script: str) -> None:
        """A sidecar and torchrun beside it, as a pod or a Slurm task has them."""
        folder = self.launcher.folder / f"node-{node.number}"
        folder.mkdir()
        endpoint = f"unix://{folder}/ranks.sock"
        self._popen(
            node,
            *self.launcher.command("sidecar", "--run-name=job", f"--listen={endpoint}"),
            f"--logs-dir={folder}", f"--metrics-host={node.address}",
            f"--metrics-port={self.metrics}", "--linger=0",
        )  # fmt: skip
        environment = {ENDPOINT_VARIABLE: endpoint, "GLOO_SOCKET_IFNAME": node.interface}
        self._popen(
            node,
            sys.executable, "-m", "torch.distributed.run", "--nnodes=2",
            f"--node-rank={node.number}", f"--nproc-per-node={ranks}",
            f"--master-addr={self.nodes[0].address}", f"--master-port={self.rendezvous}",
            str(SCRIPTS / "training.py"), *script, **environment,
        )  # fmt: skip

    def start_prometheus(self, program: str) -> None:
        """On the first node, over both."""
        folder = self.launcher.folder
        hurried = ["--rate-window=10s", "--for=2s", "--output", str(folder / "rules.yml")]
        assert main(["rules", *hurried]) == 0
        targets = [self.target(node) for node in self.nodes]
        scrape = {"job_name": "traceml", "static_configs": [{"targets": targets}]}
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({**CONFIG, "scrape_configs": [scrape]}))
        self._popen(
            self.nodes[0], program, f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={self.nodes[0].address}:{self.server}",
        )  # fmt: skip

    def target(self, node: Node) -> str:
        """Where its metrics are."""
        return f"{node.address}:{self.metrics}"

    def query(self, expression: str) -> Vector:
        """What Prometheus answers, asked where it can be reached, while all parts live."""
        for process in self.started:
            assert process.poll() is None, process.communicate()
        server = f"http://{self.nodes[0].address}:{self.server}"
        command = [self.promtool, "query", "instant", "-o", "json", server, expression]
        asked = subprocess.run([*self.nodes[0].enter, *command], capture_output=True, text=True)
        found: Vector = json.loads(asked.stdout) if asked.returncode == 0 else []
        return found

    def _popen(self, node: Node, *command: str, **variables: str) -> None:
        environment = inject.environment(variables) if variables else {}
        self.started.append(self.launcher.popen([*node.enter, *command], environment))


@pytest.fixture
def start(
    launcher: Launcher, prometheus: str, promtool: str, hold: Path
) -> Iterator[Callable[..., Job]]:
    """Starts a job whose last rank, on the second node, is slow in forward."""
    with ExitStack() as stack:
        nodes = stack.enter_context(two_nodes())

        def started(ranks: int) -> Job:
            job = Job(nodes, launcher, promtool)
            fault = ["--slow=forward", f"--slow-rank={2 * ranks - 1}", f"--delay={DELAY_SECONDS}"]
            for node in nodes:
                job.start_node(node, ranks, *fault, "--hold", str(hold))
            job.start_prometheus(prometheus)
            eventually(lambda: job.query(f"run:traceml_ranks_reporting == {2 * ranks}"), 90)
            eventually(lambda: job.query("run:traceml_steps_completed > 40"), 90)
            return job

        yield started
        launcher.__exit__()  # nothing may run in a namespace that is deleted


def place(labels: dict[str, str]) -> tuple[str, str]:
    return labels["rank"], labels["node"]


def worst(vector: Vector) -> dict[str, str]:
    """The labels of whoever has the largest value."""
    metric: dict[str, str] = max(vector, key=lambda each: float(each["value"][1]))["metric"]
    return metric


def asked_by_panel(board: str) -> dict[str, list[str]]:
    """What a dashboard asks, with its variables filled."""
    found: dict[str, list[str]] = {}
    for asked in boards.asked(board):
        found.setdefault(asked.panel, []).append(CHOSEN(asked.expr))
    return found


def test_prometheus_and_the_ranks_dashboard_name_a_straggler_on_the_other_node(
    start: Callable[..., Job],
) -> None:
    job = start(ranks=2)
    straggler = ("3", "1")
    score = "run_rank_phase:traceml_straggler_score >= 1"
    (found,) = eventually(lambda: job.query(f"topk(1, {score})"))
    assert (*place(found["metric"]), found["metric"]["phase"]) == (*straggler, "forward")
    assert place(worst(job.query("run_rank:traceml_straggler_score"))) == straggler

    # The sidecar of the first node sees ranks that wait, and nobody to blame.
    for finding in job.query('traceml_diagnosis_info{domain="step_time",rank="3"}'):
        assert finding["metric"]["instance"] == job.target(job.nodes[1])

    asked = asked_by_panel("ranks")
    for panel in ("Own work by rank", "$phase", "Share of time lost"):
        (query,) = asked[panel]
        vector = eventually(lambda query=query: job.query(query))  # type: ignore[misc]
        assert worst(vector)["rank"] == "3", panel
    own, score, lost, waiting, _ = asked["Worst ranks"]
    assert place(worst(job.query(own))) == straggler
    assert {worst(job.query(query))["rank"] for query in (score, lost)} == {"3"}
    waits = {each["metric"]["rank"]: float(each["value"][1]) for each in job.query(waiting)}
    assert {rank for rank, wait in waits.items() if wait > DELAY_SECONDS / 2} == {"0", "1", "2"}


def test_where_a_node_has_one_rank_only_prometheus_can_tell(start: Callable[..., Job]) -> None:
    job = start(ranks=1)
    alert = 'ALERTS{alertname="TraceMLStragglerAcrossNodes",alertstate="firing"}'
    found = eventually(lambda: job.query(alert))
    assert {place(each["metric"]) for each in found} == {("1", "1")}
    states = {
        each["metric"]["state"] for each in job.query('traceml_diagnosis_info{domain="step_time"}')
    }
    assert not any("STRAGGLER" in state for state in states)

    (named,) = job.query("run_rank_phase:traceml_straggler_across_nodes")
    assert (*place(named["metric"]), named["metric"]["phase"]) == ("1", "1", "forward")
    overview, fleet = asked_by_panel("run-overview"), asked_by_panel("fleet")
    (diagnosis,) = overview["Diagnosis"]
    told = {"state": "STRAGGLER_ACROSS_NODES", "rank": "1", "phase": "forward"}
    assert any(told.items() <= each["metric"].items() for each in job.query(diagnosis))
    share, gravest, *_ = fleet["Runs, worst first"]
    for query in (*overview["Time lost"], share):
        assert float(job.query(query)[0]["value"][1]) > 0.2
    assert told.items() <= worst(job.query(gravest)).items()
    assert worst(job.query(*overview["Share of time lost, by rank and phase"]))["rank"] == "1"


def test_a_node_whose_cable_is_pulled_is_missed_and_loses_nothing(
    start: Callable[..., Job],
) -> None:
    job = start(ranks=1)
    away = job.nodes[1]
    if not away.namespace:
        pytest.skip("there are no cables between loopback addresses")
    steps = f'traceml_steps_completed_total{{instance="{job.target(away)}"}}'
    before = float(job.query(steps)[0]["value"][1])

    away.plug(connected=False)
    eventually(lambda: job.query(f'up{{instance="{job.target(away)}"}} == 0'))
    assert eventually(lambda: not job.query(steps))
    assert eventually(lambda: job.query("run:traceml_ranks_expected == 1"))  # of those seen
    alert = 'ALERTS{alertname="TraceMLTargetDown"}'
    assert worst(eventually(lambda: job.query(alert)))["run"] == "job"

    away.plug(connected=True)
    eventually(lambda: job.query(f"{steps} > {before}"), 120)
    assert eventually(lambda: job.query("run:traceml_ranks_reporting == 2"))
    assert not job.query("traceml_records_dropped_total > 0")
    assert not job.query("traceml_steps_incomplete_total > 0")

"""Recording rules over the sidecars of two nodes say what one sidecar of all ranks says."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.builders import TYPICAL_MS, hello_request, joined, make_identity, timed_records
from tests.client import Client, channel_to
from tests.launching import Launcher, eventually
from tests.prometheus import discovered, query, running
from traceml.cli.main import main
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import Records, encode

RANKS, NODES, STEPS = 8, 2, 120
SLOW_MS = {4: 12.0, 5: 16.0, 6: 12.0, 7: 12.0}  # the ranks of the second node, in forward
CALL_SECONDS = 10.0


class Feed:
    """Ranks without a training, that tell a real sidecar what they should have done."""

    def __init__(self, endpoint: str, told: Mapping[int, Records], nodes: int) -> None:
        self._channel = channel_to(endpoint)
        self._client = Client(self._channel)
        self._told = told
        local = RANKS // nodes
        for rank in told:
            identity = make_identity(rank, RANKS)
            identity.local_world_size = local
            identity.local_rank, identity.node_rank = rank % local, rank // local
            hello = hello_request(str(rank), identity)
            self._client.hello(hello, timeout=CALL_SECONDS, wait_for_ready=True)

    def push(self) -> None:
        """All steps, and after that signs of life."""
        for rank, records in self._told.items():
            beat = pb.Heartbeat(step=STEPS, phase="forward", resident_bytes=2**30)
            request = pb.PushRequest(session=str(rank), heartbeat=beat, batch=encode(records, 1))
            self._client.push(request, timeout=CALL_SECONDS)

    def close(self) -> None:
        self._channel.close()


def run_of_eight() -> dict[int, Records]:
    """A stationary run: whoever has done its work waits for the slowest of all."""
    chance = Random(7)
    steps: dict[int, list[Records]] = {rank: [] for rank in range(RANKS)}
    for step in range(STEPS):
        own: dict[int, dict[str, Any]] = {
            rank: {
                phase: ms * chance.uniform(0.97, 1.03) + (phase == "forward") * SLOW_MS.get(rank, 0)
                for phase, ms in TYPICAL_MS.items()
                if phase != "collective_wait"
            }
            for rank in range(RANKS)
        }
        longest = max(sum(phases.values()) for phases in own.values())
        for rank, phases in own.items():
            wait = longest - sum(phases.values()) + TYPICAL_MS["collective_wait"]
            steps[rank].append(timed_records([step], **phases, collective_wait=wait))
    return {rank: joined(parts) for rank, parts in steps.items()}


@contextmanager
def fed(launcher: Launcher, run: str, node: int, told: Mapping[int, Records]) -> Iterator[Feed]:
    """A sidecar of its own for these ranks."""
    folder = launcher.folder / f"{run}-{node}"
    folder.mkdir()
    socket = f"unix://{folder}/ranks.sock"
    launcher.popen(
        launcher.command(
            "sidecar", "--run-name", run, "--logs-dir", str(folder), "--metrics-port", "0",
            "--linger", "0", "--listen", socket,
            "--sd-file", str(launcher.folder / f"targets-{run}-{node}.json"),
        )
    )  # fmt: skip
    feed = Feed(socket, told, nodes=RANKS // len(told))
    try:
        yield feed
    finally:
        feed.close()


@dataclass(frozen=True)
class Nodes:
    """Prometheus, and the ranks that have to stay alive meanwhile."""

    server: str
    feeds: list[Feed]

    def query(self, expression: str) -> list[dict[str, Any]]:
        for feed in self.feeds:
            feed.push()
        return query(self.server, expression)


@pytest.fixture
def nodes(launcher: Launcher, prometheus: str, tmp_path: Path) -> Iterator[Nodes]:
    """Prometheus over the run as two nodes tell it (`joined`), and as one does (`whole`)."""
    rules = tmp_path / "rules.yml"
    hurried = ("--rate-window=10s", "--for=2s", "--output", str(rules))
    assert main(["rules", *hurried]) == 0
    told = run_of_eight()
    half = RANKS // NODES
    with ExitStack() as stack:
        feeds = [stack.enter_context(fed(launcher, "whole", 0, told))]
        for node in range(NODES):
            mine = {rank: told[rank] for rank in range(node * half, (node + 1) * half)}
            feeds.append(stack.enter_context(fed(launcher, "joined", node, mine)))
        targets = discovered(tmp_path / "targets-*.json")
        address = stack.enter_context(running(prometheus, tmp_path, targets, rules=[rules]))

        nodes = Nodes(address, feeds)
        eventually(lambda: len(nodes.query("traceml_steps_completed_total")) == len(feeds))
        yield nodes


def values(server: str, expression: str, *labels: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(each["metric"].get(label, "") for label in labels): float(each["value"][1])
        for each in query(server, expression)
    }


def only(server: str, expression: str) -> dict[str, Any]:
    (found,) = query(server, expression)
    return found


def _place(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels["rank"], labels["node"]


def test_two_sidecars_of_four_ranks_make_the_median_the_worst_and_the_culprit_of_one_of_eight(
    nodes: Nodes,
) -> None:
    server = nodes.server
    alert = 'ALERTS{alertname="TraceMLStragglerAcrossNodes",run="joined",alertstate="firing"}'
    slow = {(str(rank), "1") for rank in SLOW_MS}
    eventually(lambda: slow == {_place(each["metric"]) for each in nodes.query(alert)})

    for figure in ("median_seconds", "worst_seconds", "worst_rank", "skew_ratio"):
        recorded = values(server, f'run_phase:traceml_phase_{figure}{{run="joined"}}', "phase")
        whole = values(server, f'traceml_phase_{figure}{{run="whole"}}', "phase")
        assert recorded.keys() == whole.keys() == {(phase,) for phase in TYPICAL_MS}
        assert recorded == pytest.approx(whole), figure
        recorded = values(server, f'run:traceml_step_{figure}{{run="joined"}}')
        assert recorded == pytest.approx(values(server, f'traceml_step_{figure}{{run="whole"}}'))
    recorded = values(server, 'run_phase:traceml_phase_share_ratio{run="joined"}', "phase")
    whole = values(server, 'traceml_phase_share_ratio{run="whole"}', "phase")
    assert recorded == pytest.approx(whole)
    assert values(server, 'run:traceml_ranks_reporting{run="joined"}') == {(): RANKS}

    said = only(server, 'traceml_diagnosis_info{run="whole",domain="step_time"}')["metric"]
    assert (said["state"], said["rank"], said["phase"]) == ("COMPUTE_STRAGGLER", "5", "forward")
    culprit = only(server, 'topk(1, run_rank_phase:traceml_straggler_score{run="joined"})')
    assert (culprit["metric"]["rank"], culprit["metric"]["phase"]) == ("5", "forward")
    score = only(server, 'traceml_diagnosis_score{run="whole",state="COMPUTE_STRAGGLER"}')
    assert float(culprit["value"][1]) == pytest.approx(float(score["value"][1]), rel=0.05)

    # On the slow node its own sidecar has nothing to compare it with.
    alone = query(server, 'traceml_diagnosis_info{run="joined",domain="step_time"}')
    assert {each["metric"]["state"] for each in alone}.isdisjoint({"COMPUTE_STRAGGLER"})
    assert not query(server, 'ALERTS{alertname="TraceMLStragglerAcrossNodes",run="whole"}')

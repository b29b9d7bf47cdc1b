"""From a fault on a rank to whoever is woken by it: real runs, Prometheus and Alertmanager."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.accuracy.schedule import ROTATING, Schedule, Segment
from tests import alertmanager, prometheus
from tests.alertmanager import Hook, Told, hooked
from tests.conftest import require_program
from tests.end_to_end.test_absence import train_apart
from tests.end_to_end.test_stalled import pids
from tests.launching import SCRIPTS, Launcher, eventually
from tests.prometheus import discovered, query
from traceml.cli.main import main
from traceml.publish.rules.recording import RECORDING

ROOT = Path(__file__).parents[2]
WORKLOAD = ROOT / "benchmarks" / "accuracy" / "workload.py"
RUNBOOKS = "https://runbooks.example.org"

# All that is meant for hours of training, in seconds.
HURRIED = (
    "--rate-window=10s", "--for=2s", "--stalled-after=3s", "--missing-after=2s",
    "--memory-window=10s", "--memory-horizon=365d", "--lost-share=0.2",
    f"--runbook-base={RUNBOOKS}",
)  # fmt: skip


@dataclass(frozen=True)
class Watch:
    """Prometheus, and whom its alerts reach in the end."""

    server: str
    hook: Hook

    def was_pending(self, alert: str) -> bool:
        series = f'ALERTS{{alertname="{alert}",alertstate="pending"}}'
        return bool(query(self.server, f"count_over_time({series}[10m])"))


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    return tmp_path / "targets.json"


@pytest.fixture
def watch(tmp_path: Path, targets: Path) -> Iterator[Watch]:
    """Everything an operator has, over whatever announces itself in `targets`."""
    rules = tmp_path / "rules.yml"
    assert main(["rules", *HURRIED, "--output", str(rules)]) == 0
    programs = [require_program(name) for name in ("prometheus", "prometheus-alertmanager")]
    with (
        hooked() as hook,
        alertmanager.running(programs[1], tmp_path, hook) as told,
        prometheus.running(
            programs[0], tmp_path, discovered(targets), rules=[rules], alertmanager=told
        ) as server,
    ):
        yield Watch(server, hook)


def follow(launcher: Launcher, targets: Path, *segments: Segment) -> None:
    """Start two ranks that go through these segments, and are healthy afterwards."""
    schedule = Schedule("alerting", 2, (*segments, Segment(5_000)))
    file = launcher.folder / "schedule.json"
    file.write_text(schedule.to_json())
    launcher.start(
        "--sd-file", str(targets), "--nproc-per-node=2", str(WORKLOAD),
        "--", "--schedule", str(file), "--out", str(launcher.folder / "measured.json"),
        environment={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    launcher.sidecar()


def assert_leads_to_its_runbook(told: Told) -> None:
    page = f"{told['labels']['alertname']}.md"
    assert told["annotations"]["runbook_url"] == f"{RUNBOOKS}/{page}"
    assert (ROOT / "docs" / "runbooks" / page).is_file()


# Two real nodes are in test_two_nodes.py.
OF_SEVERAL_NODES = "run_rank_phase:traceml_straggler_across_nodes"


def recorded(server: str) -> set[str]:
    found = query(server, '{__name__=~"run.*:traceml_.+",run="test"}')
    return {series["metric"]["__name__"] for series in found}


def test_a_straggler_is_told_with_rank_and_phase_whether_it_flips_or_stays_and_then_is_over(
    launcher: Launcher, watch: Watch, targets: Path
) -> None:
    follow(
        launcher,
        targets,
        Segment(380, "forward", ROTATING, delay=0.45),  # each rank costs a sixth, both a third
        Segment(330, "forward", 1, delay=0.8),
    )
    flipping = watch.hook.first("TraceMLRankImbalance", run="test")
    assert not watch.hook.about("TraceMLStraggler")
    assert_leads_to_its_runbook(flipping)
    assert "rank 0 in forward" in flipping["annotations"]["description"]
    assert "rank 1 in forward" in flipping["annotations"]["description"]

    told = watch.hook.first("TraceMLStraggler", run="test", rank="1", phase="forward")
    assert watch.was_pending("TraceMLStraggler")
    assert_leads_to_its_runbook(told)
    assert told["annotations"]["summary"] == "Rank 1 of run test holds back the others in forward"
    assert "for rank 1 (node 0, 127.0.0.1:" in told["annotations"]["description"]
    expected = {rule.name for rule in RECORDING} - {OF_SEVERAL_NODES}
    eventually(lambda: recorded(watch.server) == expected, seconds=20)

    watch.hook.first("TraceMLStraggler", "resolved", run="test", rank="1", phase="forward")
    assert not watch.hook.about("TraceMLStraggler", rank="0")


def test_a_stopped_rank_is_told_as_stalled_and_missing_and_forgiven_when_it_goes_on(
    launcher: Launcher, watch: Watch, targets: Path, tmp_path: Path
) -> None:
    hold, policy = tmp_path / "hold", tmp_path / "policy.toml"
    hold.touch()
    policy.write_text("stalled_seconds = 2\n")
    run = launcher.start(
        "--policy", str(policy), "--sd-file", str(targets), "--nproc-per-node=2",
        str(SCRIPTS / "training.py"), "--", "--hold", str(hold), "--pause", "0.02",
    )  # fmt: skip
    eventually(lambda: launcher.completed() > 40)
    stopped = eventually(lambda: pids(launcher).get(1))
    os.kill(stopped, signal.SIGSTOP)

    told = watch.hook.first("TraceMLStalled", run="test", rank="1")
    assert told["labels"]["severity"] == "critical"
    assert_leads_to_its_runbook(told)
    phase = told["labels"]["phase"]
    assert told["annotations"]["summary"] == (
        f"Run test stands still: rank 1 in {phase} is waited for"
    )
    missing = watch.hook.first("TraceMLRankMissing", run="test", rank="1")
    assert missing["annotations"]["summary"] == "Rank 1 of run test is missing"
    severe = {path for path, each in watch.hook.told if each["labels"]["severity"] == "critical"}
    assert severe == {"/page"}

    os.kill(stopped, signal.SIGCONT)
    watch.hook.first("TraceMLStalled", "resolved", run="test", rank="1")
    watch.hook.first("TraceMLRankMissing", "resolved", run="test", rank="1")
    hold.unlink()
    assert launcher.finish(run).exit_code == 0


def test_a_rank_that_was_killed_is_told_as_missing_while_the_others_go_on(
    launcher: Launcher, watch: Watch, targets: Path, hold: Path
) -> None:
    launcher.start_sidecar("--sd-file", str(targets))
    ranks = [train_apart(launcher, hold, rank) for rank in range(2)]
    eventually(lambda: launcher.completed() > 20)
    there = 'run_rank:traceml_run_start_timestamp_seconds{rank="1"}'
    eventually(lambda: query(watch.server, there))
    ranks[1].kill()
    told = watch.hook.first("TraceMLRankMissing", run="test", rank="1")
    assert_leads_to_its_runbook(told)
    assert told["annotations"]["description"].startswith("1 of 2 ranks do not report.")
    assert not watch.hook.about("TraceMLRankMissing", rank="0")
    assert not watch.hook.about("TraceMLStalled")


def test_a_leak_is_told_before_memory_runs_out(
    launcher: Launcher, watch: Watch, targets: Path
) -> None:
    follow(launcher, targets, Segment(900, ranks=1, leak_mib=0.75))
    soon = watch.hook.first("TraceMLMemoryRunsOut", run="test")
    assert soon["labels"]["severity"] == "critical"
    assert_leads_to_its_runbook(soon)
    creep = eventually(
        lambda: query(watch.server, 'ALERTS{alertname="TraceMLMemoryCreep",alertstate="firing"}')
    )
    assert creep[0]["metric"]["run"] == "test"
    # The critical alert speaks for the warning.
    assert not watch.hook.about("TraceMLMemoryCreep")

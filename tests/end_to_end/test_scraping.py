"""A real Prometheus against a real 2-rank run."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.launching import SCRIPTS, Launcher, eventually, fetch
from tests.prometheus import discovered, query, running
from tests.receiver import grpc_receiver


@pytest.fixture
def run(launcher: Launcher, tmp_path: Path) -> Launcher:
    """A 2-rank run that goes on for as long as the test."""
    launcher.start(
        "--sd-file", str(tmp_path / "targets.json"), "--nproc-per-node=2",
        str(SCRIPTS / "training.py"), "--", "--pause", "0.01", "--hold", str(tmp_path),
    )  # fmt: skip
    launcher.sidecar()
    return launcher


@pytest.fixture
def server(prometheus: str, tmp_path: Path) -> Iterator[str]:
    """A Prometheus that discovers the run by its sd file."""
    with running(prometheus, tmp_path, discovered(tmp_path / "targets.json")) as server:
        yield server


def test_prometheus_scrapes_a_running_job(run: Launcher, server: str) -> None:
    eventually(lambda: query(server, "up == 1"))
    grows = "increase(traceml_steps_completed_total{run='test'}[10s]) > 0"
    assert eventually(lambda: query(server, grows))
    phases = ("dataloader", "forward", "backward", "optimizer", "collective_wait", "other")
    expected = {(rank, phase) for rank in ("0", "1") for phase in phases}
    # In its first steps a rank does not know yet where its own backward ends.
    eventually(lambda: phases_told(server) >= expected)
    assert phases_told(server) == expected
    assert query(server, "traceml_ranks_expected - traceml_ranks_reporting")[0]["value"][1] == "0"


def phases_told(server: str) -> set[tuple[str, str]]:
    series = query(server, "traceml_rank_phase_time_seconds_total")
    return {(of["metric"]["rank"], of["metric"]["phase"]) for of in series}


def test_a_live_run_s_metrics_please_promtool_and_parse_as_openmetrics(
    run: Launcher, promtool: str
) -> None:
    eventually(lambda: "traceml_phase_median_seconds{" in run.metrics())
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=run.metrics(), text=True, capture_output=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    openmetrics = fetch(
        run.sidecar()["metrics"], {"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    families = {family.name for family in text_string_to_metric_families(openmetrics)}  # type: ignore[no-untyped-call]
    assert "traceml_step_seconds" in families


def test_ranks_need_not_have_series_of_their_own(launcher: Launcher, hold: Path) -> None:
    with grpc_receiver() as (received, port):
        launcher.start(
            "--no-rank-metrics", "--otlp-endpoint", f"http://127.0.0.1:{port}",
            "--textfile-dir", str(launcher.folder), "--nproc-per-node=2",
            str(SCRIPTS / "training.py"), "--", "--hold", str(hold),
            environment={"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        )  # fmt: skip
        eventually(lambda: 'traceml_phase_median_seconds{phase="forward"' in launcher.metrics())
        told = launcher.metrics()
        hold.unlink()
        textfile = eventually((launcher.folder / "traceml-test.prom").read_text)
        eventually(lambda: "traceml.phase.median" in received.metric_names())
        sent = received.metric_names()
    assert not [name for name in sent if name.startswith("traceml.rank.")]
    for text in (told, textfile):
        assert "traceml_rank_" not in text
        assert 'traceml_straggler_lost_seconds_total{phase="forward",rank="1"' in text


def test_a_run_does_not_withdraw_what_another_has_announced(
    launcher: Launcher, tmp_path: Path
) -> None:
    targets = tmp_path / "targets.json"
    script = tmp_path / "replace.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "while not file.exists(): time.sleep(0.05)\n"
        "file.write_text('theirs')\n"
    )
    launcher.run("--linger=0", "--sd-file", str(targets), str(script), "--", str(targets))
    assert targets.read_text() == "theirs"

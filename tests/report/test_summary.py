import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    Clock,
    golden_run,
    look,
    make_collector,
    run_of,
    start_ranks,
    timed_records,
)
from traceml import __version__
from traceml.report.html import summary_html
from traceml.report.summary import summarized, summary
from traceml.report.text import summary_text
from traceml.report.writing import write_summary
from traceml.wire.columns import PHASES

RUN_KEYS = {
    "name", "id", "status", "exit_code", "started_at", "duration_seconds", "world_size", "nnodes",
    "strategy", "device", "torch", "python", "traceml", "command",
}  # fmt: skip
SPREAD_KEYS = {"median_seconds", "worst_seconds", "worst_rank", "skew_ratio"}
FINDING_KEYS = {"domain", "state", "severity", "summary"}
DOMAINS = ("step_time", "step_memory", "system", "process")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return summary(run_of(2, steps=50))


def holds_none(value: Any) -> bool:
    if isinstance(value, dict):
        return any(holds_none(item) for item in value.values())
    if isinstance(value, list):
        return any(holds_none(item) for item in value)
    return value is None


def test_the_schema_version_is_an_integer(document: dict[str, Any]) -> None:
    assert document["schema_version"] == 1
    assert type(document["schema_version"]) is int


def test_the_sections_are_those_others_rely_on(document: dict[str, Any]) -> None:
    assert set(document) >= {
        "schema_version", "run", "primary_diagnosis", *DOMAINS, "ranks", "telemetry",
    }  # fmt: skip


def test_the_run_is_described(document: dict[str, Any]) -> None:
    run = document["run"]
    assert set(run) == RUN_KEYS
    assert (run["name"], run["status"], run["exit_code"]) == ("demo", "completed", 0)
    assert run["started_at"] == "2023-11-14T22:13:20.000+00:00"
    assert run["duration_seconds"] == 60.0
    assert (run["world_size"], run["nnodes"], run["strategy"]) == (2, 1, "ddp")
    assert run["traceml"] == __version__
    assert run["command"] == ["traceml", "run", "train.py"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_domain_has_its_diagnosis(domain: str, document: dict[str, Any]) -> None:
    section = document[domain]
    assert set(section["diagnosis"]) >= FINDING_KEYS
    assert section["diagnosis"]["domain"] == domain
    assert section["diagnosis"] in section["findings"]


def test_the_primary_diagnosis_is_that_of_the_step_time(document: dict[str, Any]) -> None:
    assert document["primary_diagnosis"] == document["step_time"]["diagnosis"]


def test_the_step_time_tells_steps_phases_and_quantiles(document: dict[str, Any]) -> None:
    section = document["step_time"]
    assert section["clock"] == "cpu"
    assert section["steps"] == {"completed": 50, "incomplete": 0, "excluded": {}}
    assert set(section["step"]) == SPREAD_KEYS
    assert list(section["phases"]) == list(PHASES)
    assert all(set(phase) == {*SPREAD_KEYS, "share_ratio"} for phase in section["phases"].values())
    assert list(section["step_quantiles_seconds"]) == ["p50", "p90", "p95", "p99", "max"]


def test_the_slow_rank_is_named(document: dict[str, Any]) -> None:
    backward = document["step_time"]["phases"]["backward"]
    assert backward["worst_rank"] == 1
    assert backward["median_seconds"] == pytest.approx(0.020)
    assert backward["worst_seconds"] == pytest.approx(0.022)
    assert backward["skew_ratio"] == pytest.approx(0.1)


def test_memory_is_in_bytes_and_its_kind_is_said(document: dict[str, Any]) -> None:
    assert document["step_memory"]["kind"] == "rss"
    assert document["step_memory"]["peak"]["worst_bytes"] == 2**30


def test_each_rank_is_told(document: dict[str, Any]) -> None:
    ranks = document["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    expected = {"rank", "node", "local_rank", "device", "steps", "phases", "memory", "process"}
    assert all(set(rank) >= expected for rank in ranks)
    assert ranks[1]["phases"]["backward"] == pytest.approx(0.022)
    assert ranks[1]["memory"] == {"rss_peak_bytes": 2**30, "limit_bytes": 32 * 2**30}


def test_telemetry_tells_what_tracing_cost(document: dict[str, Any]) -> None:
    assert document["telemetry"] == {
        "overhead_seconds_per_step": pytest.approx(8e-6),
        "records_received": 100,
        "records_dropped": 0,
        "records_dropped_by_reason": {},
        "records_unjournaled": 0,
        "requests_refused": 0,
        "sidecar_restarts": 0,
    }


def test_what_was_not_measured_is_left_out() -> None:
    document = summary(look(make_collector(Clock())))
    assert not holds_none(document)
    assert not {"world_size", "exit_code", "strategy"} & set(document["run"])
    assert "step" not in document["step_time"]
    assert "overhead_seconds_per_step" not in document["telemetry"]


def test_a_zero_is_not_left_out(document: dict[str, Any]) -> None:
    assert document["run"]["exit_code"] == 0
    assert document["ranks"][0]["rank"] == 0


def test_all_files_are_written(tmp_path: Path) -> None:
    run = run_of(2)
    write_summary(run, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "final_summary.html",
        "final_summary.json",
        "final_summary.txt",
    ]
    assert json.loads((tmp_path / "final_summary.json").read_text()) == summary(run)
    assert (tmp_path / "final_summary.txt").read_text() == summary_text(summarized(run))
    assert (tmp_path / "final_summary.html").read_text() == summary_html(summarized(run))


def test_who_reads_while_a_summary_is_replaced_reads_the_old_one_whole(tmp_path: Path) -> None:
    write_summary(run_of(1, name="before"), tmp_path)
    with (tmp_path / "final_summary.json").open() as reader:
        write_summary(run_of(1, name="after"), tmp_path)
        assert json.load(reader)["run"]["name"] == "before"
    assert json.loads((tmp_path / "final_summary.json").read_text())["run"]["name"] == "after"


def test_an_argument_that_is_no_unicode_does_not_cost_the_summary(tmp_path: Path) -> None:
    snapshot = run_of(1)
    snapshot = replace(snapshot, run=replace(snapshot.run, command=("traceml", "\udcff.py")))
    write_summary(snapshot, tmp_path)
    document = json.loads((tmp_path / "final_summary.json").read_bytes())
    assert document["run"]["command"][0] == "traceml"


def test_a_rank_tells_where_it_waits_and_what_its_device_idles() -> None:
    rank = summary(golden_run())["ranks"][0]
    assert rank["wait_seconds_by_place"].keys() == {"forward", "backward"}
    waited = sum(rank["wait_seconds_by_place"].values())
    assert waited == pytest.approx(rank["phases"]["collective_wait"])
    assert rank["device_idle_ratio"] == pytest.approx(2 / 53)


def test_on_a_cpu_no_device_idles(document: dict[str, Any]) -> None:
    assert not any("device_idle_ratio" in rank for rank in document["ranks"])


def test_own_work_is_absent_where_waits_are_not_seen() -> None:
    collector = make_collector(Clock())
    for process in start_ranks(collector, 2):
        process.send(timed_records(range(5), collective_wait=None))
    for rank in summary(look(collector))["ranks"]:
        assert not rank.keys() & {"own_seconds", "wait_seconds_by_place"}

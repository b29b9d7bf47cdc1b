"""From files to sides: our own summaries, the peer's, and whatever else lies there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders import run_of
from tests.report.compare.made import Workload, made_summary, write_summary
from traceml.report.compare.comparison import compare
from traceml.report.compare.reading import read_side
from traceml.report.reading import UnreadableError
from traceml.report.summary import summary

DATA = Path(__file__).parent / "data"


@pytest.fixture
def document(rng: np.random.Generator) -> dict[str, Any]:
    return made_summary(rng, Workload(steps=40))


def test_a_summary_of_our_own_is_read(tmp_path: Path) -> None:
    side = read_side(write_summary(tmp_path, summary(run_of(2, steps=50))))
    assert (side.name, side.tool, side.steps) == ("demo", "traceml", 50)
    assert side.step is not None
    assert side.step.value == pytest.approx(0.043)
    assert side.phases["forward"].value == pytest.approx(0.010)
    assert side.worst["backward"].rank == 1
    assert side.memory == {"rss": 2.0**30}
    assert side.samples == 32
    assert side.environment["world size"] == "2"
    assert side.environment["torch"] == "2.13.0"
    assert side.doubts == ()


def test_the_parts_of_a_summary_of_our_own_are_its_noise(tmp_path: Path) -> None:
    side = read_side(write_summary(tmp_path, summary(run_of(2, steps=600))))
    assert side.steps == 600
    assert side.step is not None
    assert side.step.series is not None
    assert sum(side.step.series.steps) == 600
    assert side.step.series.mean == pytest.approx(0.043)
    backward = side.phases["backward"].series
    assert backward is not None
    assert backward.mean == pytest.approx(0.020)


def test_a_folder_stands_for_its_summary(tmp_path: Path, document: dict[str, Any]) -> None:
    file = write_summary(tmp_path / "baseline", document)
    assert read_side(file.parent) == read_side(file)


def test_a_summary_without_a_distribution_is_read(tmp_path: Path, document: dict[str, Any]) -> None:
    del document["step_time"]["distribution"]
    document["step_time"]["steps"]["excluded"] = {"warmup": 3}
    side = read_side(write_summary(tmp_path, document))
    assert side.steps == 37
    assert side.step is not None
    assert side.step.series is None


def test_a_run_without_a_step_is_read(tmp_path: Path, document: dict[str, Any]) -> None:
    del document["step_time"]["step"]
    assert read_side(write_summary(tmp_path, document)).step is None


def test_a_name_is_shown_without_what_would_move_the_cursor(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    document["run"]["name"] = "a\x1b[2J\nb\ud800"
    assert read_side(write_summary(tmp_path, document)).name == "a b?"


@pytest.mark.parametrize(
    ("status", "doubt"),
    [
        ("interrupted", "the run was interrupted"),
        ("running", "the run goes on"),
        ("failed", "the run has failed"),
    ],
)
def test_what_makes_a_run_doubtful_is_kept(
    tmp_path: Path, document: dict[str, Any], status: str, doubt: str
) -> None:
    document["run"]["status"] = status
    document["telemetry"]["records_dropped"] = 10
    document["coverage"] = {"until": "", "whole": False, "unread_bytes": 0, "problems": []}
    side = read_side(write_summary(tmp_path, document))
    assert side.doubts == (
        doubt, "10 records of it were lost", "its summary covers a part of it only",
    )  # fmt: skip


def test_the_peer_s_summary_is_read() -> None:
    side = read_side(DATA / "peer_slow.json")
    assert (side.name, side.tool, side.steps) == ("slow", "traceml-ai", 150)
    assert side.step is not None
    assert side.step.value == pytest.approx(0.0974, abs=1e-4)
    assert side.step.series is None
    phases = {phase: reading.value for phase, reading in side.phases.items()}
    assert set(phases) == {"dataloader", "forward", "backward", "optimizer", "other"}
    assert phases["dataloader"] == pytest.approx(0.0533, abs=1e-4)
    assert side.diagnosis is not None
    assert (side.diagnosis.state, side.diagnosis.severity) == ("INPUT_BOUND", "critical")
    assert side.environment["world size"] == "2"
    assert side.host_cpu == pytest.approx(1.0, abs=0.01)
    assert side.memory == {}


def test_two_summaries_of_the_peer_s_are_compared() -> None:
    compared = compare([read_side(DATA / "peer_slow.json")], read_side(DATA / "peer_fast.json"))
    assert (compared.verdict.state, compared.verdict.confidence) == ("IMPROVEMENT", "low")
    assert compared.causes[0].phase == "dataloader"
    assert compared.shift.says == "improved"
    assert compared.changed == ()


def test_the_peer_s_and_our_own_are_compared_with_waiting_as_a_part_of_backward(
    tmp_path: Path,
) -> None:
    ours = read_side(write_summary(tmp_path, summary(run_of(2, steps=50))))
    compared = compare([read_side(DATA / "peer_slow.json")], ours)
    assert compared.verdict.state == "IMPROVEMENT"
    assert "collective_wait" not in compared.effects.phases
    together = ours.phases["backward"].value + ours.phases["collective_wait"].value
    assert compared.effects.phases["backward"].candidate == pytest.approx(together)
    assert compared.changed[0].what == "measured by"


RANK_0 = ("step_time", "groups", "rows", "0")
Broken = Callable[[dict[str, Any]], Any]

BROKEN: dict[str, tuple[Broken, str]] = {
    "no version": (lambda d: {**d, "schema_version": None}, "its schema_version is None"),
    "version 2": (lambda d: {**d, "schema_version": 2.1}, "its schema_version is 2.1"),
    "a version in words": (
        lambda d: {**d, "schema_version": "1"}, "schema_version is text, not a number",
    ),
    "no times": (lambda d: {**d, "step_time": None}, "it has no step_time"),
    "a section that is a list": (
        lambda d: {**d, "step_time": [1]}, "step_time is a list, not an object",
    ),
    "a time in words": (
        lambda d: changed(d, "soon", *RANK_0, "metrics", "step_time_ms"),
        "metrics.step_time_ms is text, not a number",
    ),
    "a time below 0": (
        lambda d: changed(d, -1, *RANK_0, "metrics", "step_time_ms"), "is no amount: -1",
    ),
    "a number without end": (
        lambda d: changed(d, 10**400, *RANK_0, "metrics", "step_time_ms"), "is no amount: 1000",
    ),
    "half a rank": (
        lambda d: changed(d, 0.5, *RANK_0, "identity", "global_rank"), "is no whole number: 0.5",
    ),
    "a name that is a number": (
        lambda d: changed(d, 5, "meta", "run_name"), "meta.run_name is a number",
    ),
}  # fmt: skip


def changed(document: dict[str, Any], value: Any, *path: str) -> dict[str, Any]:
    """The document with another value at a place."""
    *way, last = path
    inside = document
    for key in way:
        inside = inside[key]
    inside[last] = value
    return document


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_summary_of_the_peer_s_is_told_with_its_place(tmp_path: Path, case: str) -> None:
    breaks, complaint = BROKEN[case]
    file = tmp_path / "final_summary.json"
    file.write_text(json.dumps(breaks(json.loads((DATA / "peer_slow.json").read_text()))))
    assert_told(file, complaint)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        (b"", "is empty"),
        (b"[]", "it has no schema_version"),
        (b'{"schema_version": 1}', "run is missing"),
        (b'{"schema_version": 2, "run": {}}', "is of schema version 2; this TraceML reads 1"),
        (b'{"schema_version": 1, "run"', "is no JSON: "),
        (b'{"schema_version": NaN}', "holds NaN, which is no number in JSON"),
    ],
)
def test_what_is_no_summary_at_all_is_told(tmp_path: Path, contents: bytes, complaint: str) -> None:
    file = tmp_path / "final_summary.json"
    file.write_bytes(contents)
    assert_told(file, complaint)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    assert_told(tmp_path / "nowhere", "no such file or folder")
    assert_told(tmp_path, "is a folder without a final_summary.json")
    assert_told(Path("/dev/null"), "is no file")
    assert_told(tmp_path / ("x" * 300), "File name too long")
    assert_told(Path("a\0b"), "")


def test_a_job_of_several_nodes_asks_for_one(tmp_path: Path, document: dict[str, Any]) -> None:
    for node in range(2):
        write_summary(tmp_path / f"node-{node}", document)
    assert_told(tmp_path, "name one of node-0, node-1")


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "final_summary.json"
    with file.open("wb") as sparse:
        sparse.truncate(2**30)
    assert_told(file, "is larger than 16 MiB, so no summary")


def assert_told(given: Path, complaint: str) -> None:
    with pytest.raises(UnreadableError) as told:
        read_side(given)
    assert complaint in str(told.value)
    assert len(str(told.value).splitlines()) == 1

"""The schema in docs/ is made from the types, and what is written keeps to it."""

import json
from typing import Any

import jsonschema
import pytest

from tests.builders import Clock, golden_run, look, make_collector, run_of
from tests.report.hostile import hostile_run
from traceml.report.document import Summary
from traceml.report.schema import FILE, page
from traceml.report.summary import summarized, summary
from traceml.report.typed import read
from traceml.report.writing import rendered
from traceml.snapshot import Snapshot


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_file_is_made_from_the_types_as_they_are() -> None:
    assert FILE.read_text() == page()


RUNS = {
    "nothing": look(make_collector(Clock())),
    "golden": golden_run(),
    "one rank": run_of(1, steps=50),
    "64 ranks": run_of(64),
    "hostile": hostile_run(),
}


@pytest.mark.parametrize("snapshot", RUNS.values(), ids=RUNS)
def test_what_is_written_keeps_to_the_schema(snapshot: Snapshot, validator: Any) -> None:
    written = json.loads(rendered(summarized(snapshot), "json"))
    assert written == summary(snapshot)
    assert list(validator.iter_errors(written)) == []


@pytest.mark.parametrize("snapshot", RUNS.values(), ids=RUNS)
def test_what_is_written_is_read_again_as_it_was(snapshot: Snapshot) -> None:
    written = rendered(summarized(snapshot), "json")
    again = read(Summary, json.loads(written))
    if snapshot is not RUNS["hostile"]:  # whose control characters are not taken in again
        assert rendered(again, "json") == written
    assert rendered(again, "text").count("\n") == rendered(summarized(snapshot), "text").count("\n")


@pytest.mark.parametrize(
    "path",
    [
        ("run", "status"),
        ("step_time", "steps", "completed"),
        ("step_time", "distribution", "parts", 0, "seconds"),
        ("step_time", "phases", "backward", "median_seconds"),
        ("ranks", 0, "lost_seconds"),
        ("telemetry", "records_received"),
    ],
)
def test_the_schema_would_notice_a_wrong_value(path: tuple[Any, ...], validator: Any) -> None:
    document = summary(golden_run())
    inside: Any = document
    for key in path[:-1]:
        inside = inside[key]
    assert inside[path[-1]] is not None
    inside[path[-1]] = "wrong"
    assert list(validator.iter_errors(document))


def test_the_document_is_laid_out_to_be_read() -> None:
    lines = rendered(summarized(run_of(2, steps=400)), "json").splitlines()
    assert [line for line in lines if line.lstrip().startswith('{"steps": 2, "seconds": ')]
    assert len(lines) < 500  # a part of the run each on a line of its own
    long = [line for line in lines if len(line) > 101]
    assert all('": "' in line or "{" in line for line in long)

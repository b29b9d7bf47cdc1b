"""A summary that is none: one clear line, whatever it is."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import golden_run, run_of
from traceml.report.document import Summary
from traceml.report.reading import UnreadableError, read_summary
from traceml.report.summary import summarized, summary
from traceml.report.typed import ShapeError, read
from traceml.report.writing import FORMS, rendered

GOOD = json.dumps(summary(golden_run()))


def changed(**values: Any) -> str:
    return json.dumps({**json.loads(GOOD), **values})


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n ", "is empty"),
    "truncated": (GOOD[: len(GOOD) // 2].encode(), "is no JSON: "),
    "binary": (bytes(range(256)), "is no text, so no JSON"),
    "a number": (b"7", "it has no schema_version"),
    "a list": (b"[]", "it has no schema_version"),
    "another object": (b'{"a": 1}', "it has no schema_version"),
    "nan": (GOOD.replace(": 0,", ": NaN,", 1).encode(), "it holds NaN, which is no number"),
    "infinite": (GOOD.replace(": 0,", ": 1e999,", 1).encode(), "should be a"),
    "a newer version": (changed(schema_version=2).encode(), "is of schema version 2; this"),
    "the peer's": (changed(schema_version=1.4).encode(), "is of schema version 1.4; this"),
    "no steps": (changed(step_time={}).encode(), "step_time.diagnosis is missing"),
    "ranks that are none": (changed(ranks=[7]).encode(), "ranks[0] should be an object, and is 7"),
    "too deep": (b"[" * 100_000, "is nested too deeply"),
    "too many digits": (b'{"schema_version": ' + b"9" * 10_000 + b"}", "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "complaint"), BAD.values(), ids=BAD)
def test_what_is_no_summary_is_told_in_one_line(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "final_summary.json"
    file.write_bytes(content)
    with pytest.raises(UnreadableError) as caught:
        read_summary(file)
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


PLACES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda file: None, "no such file or folder"),
    "a folder": (lambda file: file.mkdir(), "is no file"),
    "a pipe": (lambda file: os.mkfifo(file), "is no file"),
    "a link to itself": (lambda file: file.symlink_to(file), "cannot read|no such file"),
}


@pytest.mark.parametrize(("make", "complaint"), PLACES.values(), ids=PLACES)
def test_a_place_without_a_file(
    tmp_path: Path, make: Callable[[Path], Any], complaint: str
) -> None:
    make(tmp_path / "x")
    with pytest.raises(UnreadableError, match=complaint):
        read_summary(tmp_path / "x")


def test_a_name_that_cannot_be_one() -> None:
    with pytest.raises(UnreadableError):
        read_summary(Path("with\0zero"))


def test_a_file_larger_than_any_summary_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(UnreadableError, match="larger than 16 MiB, so no summary"):
        read_summary(tmp_path / "large")


def test_a_summary_with_a_byte_order_mark_is_one(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(GOOD, encoding="utf-8-sig")
    assert read_summary(tmp_path / "s.json").run.name == "demo"


def test_a_summary_of_an_earlier_release_can_be_shown(tmp_path: Path) -> None:
    """Without what has been added to the document since its first version."""
    document = json.loads(GOOD)
    for name in ("distribution", "timeline", "last_completed_after_seconds"):
        del document["step_time"][name]
    for name in ("cpu_cores", "resident"):
        document["process"].pop(name, None)
    for rank in document["ranks"]:
        del rank["host"]
    del document["telemetry"]["records_dropped_by_reason"]
    (tmp_path / "s.json").write_text(json.dumps(document))
    summary_of_then = read_summary(tmp_path / "s.json")
    assert all(rendered(summary_of_then, form) for form in FORMS)


# Values that stand in for others: of every type, and at the edges of each.
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([0, 1, -1, 10**400, 1e-320, 1e299, -1e299, 5e-324]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
    st.sampled_from(["\x00", "\x1b[31m", "\ud800", "<b>", "|", "x" * 3000, "9999-99-99"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)


def like(value: Any) -> st.SearchStrategy[Any]:
    """Values that may pass for this one, and mean something else."""
    if isinstance(value, float):
        return st.one_of(st.floats(0, 1e299), st.sampled_from([0.0, 5e-324, 1e-300]))
    if isinstance(value, int) and not isinstance(value, bool):
        return st.integers(0, 2**62)
    return st.text() if isinstance(value, str) else st.just(value)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a document with each of its keys."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [p for v in value.values() for p in places(v)]
    if isinstance(value, list):
        inside = [p for v in value for p in places(v)]
        return [(value, index) for index in range(len(value))] + inside
    return []


def refused(error: Exception) -> None:
    assert "\n" not in str(error)


SEEDS = [json.dumps(summary(snapshot)) for snapshot in (golden_run(), run_of(1), run_of(3, 40))]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_summary_that_was_tampered_with_is_shown_or_refused(data: st.DataObject) -> None:
    document = json.loads(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(places(document)))
        if data.draw(st.booleans()) and isinstance(container, dict):
            container.pop(key, None)
        elif isinstance(container, list) and key >= len(container):
            continue
        else:
            container[key] = data.draw(st.one_of(like(container[key]), odd))
    try:
        found: Summary = read(Summary, document)
    except ShapeError as error:
        refused(error)
        return
    for form in FORMS:
        assert rendered(found, form).encode("utf-8", "replace")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=6))
def test_a_file_that_was_damaged_is_read_or_refused(place: int, damage: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        data = GOOD.encode()
        file.write(data[:place] + damage + data[place + len(damage) :])
        file.flush()
        try:
            read_summary(Path(file.name))
        except UnreadableError as error:
            refused(error)


def test_every_form_shows_the_run(tmp_path: Path) -> None:
    found = summarized(run_of(2, steps=50))
    for form in FORMS:
        assert "demo" in rendered(found, form)
        assert rendered(found, form).endswith("\n")


def test_a_summary_from_before_places_and_idle_devices_were_told_is_read(tmp_path: Path) -> None:
    document = json.loads(GOOD)
    for rank in document["ranks"]:
        del rank["wait_seconds_by_place"], rank["device_idle_ratio"]
    file = tmp_path / "final_summary.json"
    file.write_text(json.dumps(document))
    before = read_summary(file)
    assert all(rank.wait_seconds_by_place is None for rank in before.ranks)
    for form in FORMS:
        assert rendered(before, form)

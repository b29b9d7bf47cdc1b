"""Whatever a summary holds, comparing it ends with a verdict or with one line."""

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.compare.made import Workload, made_summary
from traceml.cli.main import main

PEERS = Path(__file__).parent / "data"
STATES = {"IMPROVEMENT", "REGRESSION", "EQUIVALENT", "MIXED", "INCONCLUSIVE"}
FORMATS = ("text", "json", "markdown", "github")

Place = tuple[Any, ...]  # keys and indices, from the outside in

ours = made_summary(np.random.default_rng(3), Workload(steps=24))
peers = json.loads((PEERS / "peer_fast.json").read_text())

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [0, 0.0, 1e-300, 1e300, 1e17, -1, "NaN", "\x1b[2J", "../../x", "|", "\ud800"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


# What may well stand there, and yet makes no sense.
plausible = st.sampled_from([0, 0.0, 1e-300, 1e-9, 1e3, 1e17, 5, [], {}])


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Where something could be changed."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def by_section(document: dict[str, Any]) -> dict[Any, list[Place]]:
    """The places, so that each section is as likely to be hit as another, however long."""
    sections: dict[Any, list[Place]] = {}
    for place in places(document):
        sections.setdefault(place[:2], []).append(place)
    return sections


PLACES = {id(document): by_section(document) for document in (ours, peers)}


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A summary in which some things are other things, or gone; then perhaps cut off."""
    original = draw(st.sampled_from([ours, peers]))
    document = json.loads(json.dumps(original))
    for _ in range(draw(st.integers(0, 3))):
        sections = PLACES[id(original)]
        path = draw(st.sampled_from(sections[draw(st.sampled_from(list(sections)))]))
        document = changed(document, path, draw(plausible | anything), gone=draw(st.booleans()))
    text = json.dumps(document)
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 9)) == 0 else text


def changed(document: Any, path: Place, value: Any, *, gone: bool) -> Any:
    if not path:
        return value
    inside = document
    try:
        for key in path[:-1]:
            inside = inside[key]
        if gone:
            del inside[path[-1]]
        else:
            inside[path[-1]] = value
    except (LookupError, TypeError):  # an earlier change has taken it away
        return document
    return document


def finite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mutated(), mutated(), st.sampled_from(FORMATS))
def test_no_summary_makes_a_traceback(
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    base: str,
    candidate: str,
    style: str,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GITHUB_STEP_SUMMARY", str(folder / "page.md"))
        another = candidate.replace(ours["run"]["id"], "another")
        for name, text in (("base", base), ("candidate", another)):
            (folder / f"{name}.json").write_bytes(text.encode())
        limits = ("--max", "step_time=5%", "--max", "memory=5%")
        exit_code = main(["compare", "base.json", "candidate.json", "--format", style, *limits])
    shown = capsys.readouterr()
    if exit_code == 2:
        assert shown.err.startswith("traceml: error: ")
        assert len(shown.err.splitlines()) == 1
        return
    assert exit_code in (0, 1)
    assert shown.err == ""
    assert all(each.isprintable() for each in shown.out.replace("\n", ""))
    (record,) = (folder / "compare").glob("*.json")
    document = json.loads(record.read_text())
    assert document["verdict"] in STATES
    assert finite(document)
    assert {file.parent for file in folder.rglob("*_vs_*")} == {folder / "compare"}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_a_traceback(contents: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "x.json"
        file.write_bytes(contents)
        assert main(["compare", str(file), str(file), "--output-dir", name]) == 2

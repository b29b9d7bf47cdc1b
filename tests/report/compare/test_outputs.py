"""The same comparison as text, markdown and JSON."""

import json
import re
from dataclasses import replace

import pytest

from tests.report.compare.conftest import MakeSide
from tests.report.compare.made import Workload
from traceml.report.compare.comparison import Comparison, compare
from traceml.report.compare.gate import Gate
from traceml.report.compare.markdown import comparison_markdown
from traceml.report.compare.record import comparison_record
from traceml.report.compare.side import Diagnosed, Side
from traceml.report.compare.text import comparison_text

CALM = Workload(step_noise=0.02, hiccups=0.0, run_noise=0.002)


def named(side: Side, name: str, state: str = "BALANCED", severity: str = "info") -> Side:
    return replace(side, name=name, diagnosis=Diagnosed(state, severity))


@pytest.fixture
def compared(make_side: MakeSide) -> Comparison:
    slow = named(make_side(CALM.slower("dataloader", 8.0)), "slow", "INPUT_BOUND", "critical")
    fast = named(make_side(CALM, torch="2.14.0"), "fast", "COMPUTE_BOUND")
    return compare([slow], fast, gate=Gate(("regression",), {"step_time": 0.05}))


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def test_the_text_begins_with_the_verdict_and_its_cause(compared: Comparison) -> None:
    assert comparison_text(compared).startswith("IMPROVEMENT (medium confidence)  dataloader\n")


def test_the_table_has_both_names_and_the_change_of_each_metric(compared: Comparison) -> None:
    text = comparison_text(compared)
    assert line_of(text, "Metric").split()[:4] == ["Metric", "slow", "fast", "Change"]
    diagnosis = line_of(text, "Primary diagnosis").split()
    assert diagnosis[2:] == ["INPUT-BOUND", "COMPUTE-BOUND", "improved"]
    assert re.search(r"1\d\d ms +20\.\d ms +-1\d\d ms \(-8\d\.\d %\)", line_of(text, "Total step"))
    assert re.search(r"161 ms +(999 us|1\.00 ms) +-160 ms", line_of(text, "dataloader  "))


def test_the_text_says_what_it_rests_on(compared: Comparison) -> None:
    text = " ".join(comparison_text(compared).split())
    assert "Changed, so not all else is equal: torch 2.13.0 -> 2.14.0." in text
    assert "assumed: give several baselines" in text
    assert re.search(r"Gate: step_time at most \+5\.0 %: passed \(-8\d\.\d %\)", text)
    assert "Gate: no regression: passed (IMPROVEMENT)" in text


def test_the_text_is_at_most_a_hundred_columns_wide(make_side: MakeSide) -> None:
    long = named(make_side(CALM), "x" * 90)
    text = comparison_text(compare([long] * 3, replace(make_side(CALM), name="y" * 90)))
    assert max(len(line) for line in text.splitlines()) <= 100


def test_runs_of_one_name_can_be_told_apart(make_side: MakeSide) -> None:
    compared = compare([make_side(CALM)] * 3, make_side(CALM))
    assert compared.names == ("run, before (+2)", "run, after")


def test_names_do_not_become_markup(make_side: MakeSide) -> None:
    names = ("a|b <script>", "@all `x` [y](https://z) ![w](www.v)")
    sides = [named(make_side(CALM), name) for name in names]
    markdown = comparison_markdown(compare([sides[0]], sides[1]))
    header = next(line for line in markdown.splitlines() if line.startswith("| Metric"))
    assert r"a\|b \<script\>" in header
    assert r"\@all \`x\` \[y\](https\://z) \!\[w\](www\.v)" in header


def test_every_row_of_the_markdown_table_has_as_many_cells(compared: Comparison) -> None:
    rows = [line for line in comparison_markdown(compared).splitlines() if line.startswith("|")]
    assert len(rows) > 8
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_the_record_holds_what_the_text_says(compared: Comparison) -> None:
    record = json.loads(json.dumps(comparison_record(compared), allow_nan=False))
    assert (record["schema_version"], record["verdict"]) == (1, "IMPROVEMENT")
    assert record["confidence"] == "medium"
    assert record["causes"][0]["phase"] == "dataloader"
    assert record["metrics"]["step_time"]["change_ratio"] == pytest.approx(-0.89, abs=0.01)
    assert record["metrics"]["step_time"]["says"] == "better"
    assert record["bases"] == [{"name": "slow", "tool": "traceml", "steps": 200}]
    assert record["changed"] == [{"what": "torch", "base": "2.13.0", "candidate": "2.14.0"}]
    assert record["diagnosis"]["says"] == "improved"
    assert [each["outcome"] for each in record["gate"]] == ["passed", "passed"]
    assert record["run_noise_learned"] is False
    assert "advice" not in record


def test_the_record_of_an_open_verdict_says_what_would_settle_it(make_side: MakeSide) -> None:
    record = comparison_record(compare([make_side(CALM)], make_side(replace(CALM, steps=8))))
    assert record["verdict"] == "INCONCLUSIVE"
    assert "confidence" not in record
    assert record["advice"]["steps"] == 20

"""The dashboards are made from their code, ask for what there is, and say what they show."""

import json
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.grafana import boards
from tests.grafana.boards import NAMES, Asked
from tests.grafana.variables import Filled, Span
from tests.publish.rules.test_files import RUNBOOKS, SERIES, published
from traceml.diagnosis.finding import STATES
from traceml.publish.dashboards.generate import FOLDER, files
from traceml.publish.dashboards.states import EVERY, TOLD

ALL = [asked for name in NAMES for asked in boards.asked(name)]
MARKS = [asked for name in NAMES for asked in boards.marked(name).values()]
PANELS = [(name, panel) for name in NAMES for panel in boards.panels(boards.read(name))]
WITHOUT_LEGEND = ("table", "stat", "bargauge")  # the names of their series stand in them

each_board = pytest.mark.parametrize("name", NAMES)
each_panel = pytest.mark.parametrize(
    "panel", [panel for _, panel in PANELS], ids=[f"{n}-{p['title']}" for n, p in PANELS]
)

# What any variable may be.
EXAMPLE = Filled(
    {**Span(0, 3600, 15).own, "run": "demo", "runs": ".+", "rank": "(0|1)", "phase": "forward"}
)


@each_board
def test_a_dashboard_is_up_to_date(name: str) -> None:
    file = f"{name}.json"
    assert (FOLDER / file).read_text() == files()[file], "run `make generate`"


def test_there_is_no_other_dashboard() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(NAMES)


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit_and_from_where_on_it_is_bad(
    panel: dict[str, Any],
) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert defaults["unit"]
    colours = [step["color"] for step in defaults["thresholds"]["steps"]]
    assert colours[0] == "green"
    limits = [step["value"] for step in defaults["thresholds"]["steps"]]
    assert limits[0] is None
    assert all(low < high for low, high in pairwise(limits[1:]))


@each_panel
def test_a_panel_names_its_series(panel: dict[str, Any]) -> None:
    if panel["type"] == "heatmap":
        assert panel["options"]["legend"]["show"]
    elif panel["type"] not in WITHOUT_LEGEND:
        assert panel["options"]["legend"]["showLegend"]
    for target in panel["targets"]:
        assert target["legendFormat"] or target["format"] == "table"
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("asked", [*ALL, *MARKS], ids=lambda each: f"{each.board}-{each.panel}")
def test_a_query_names_only_series_that_there_are(asked: Asked) -> None:
    named = set(SERIES.findall(asked.expr))
    assert named
    assert named <= published()


def test_prometheus_can_parse_every_query(promtool: str, tmp_path: Path) -> None:
    rules = [
        {"record": f"asked:{number}", "expr": EXAMPLE(asked.expr)}
        for number, asked in enumerate([*ALL, *MARKS])
    ]
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))
    checked = subprocess.run(
        [promtool, "check", "rules", "--lint=none", str(file)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


@each_board
def test_panels_fill_the_grid_and_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in boards.read(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@each_board
def test_every_number_of_a_panel_is_its_own(name: str) -> None:
    numbers = [panel["id"] for panel in boards.read(name)["panels"]]
    assert len(set(numbers)) == len(numbers)


@each_board
def test_diagnosis_changes_and_restarts_are_marked(name: str) -> None:
    assert list(boards.marked(name)) == ["Diagnosis changes", "Restarts"]


@each_board
def test_links_lead_to_dashboards_that_there_are_and_fill_their_variables(name: str) -> None:
    variables = {
        board["uid"]: {each["name"] for each in board["templating"]["list"]}
        for board in map(boards.read, NAMES)
    }
    for uid, given in re.findall(r'"/d/([\w-]+)\?([^"]*)"', json.dumps(boards.read(name))):
        filled = re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", given)
        assert {first or second for first, second in filled} <= variables[uid]


def test_a_step_that_stood_out_leads_to_its_trace() -> None:
    assert [asked.panel for asked in ALL if asked.exemplar] == ["Step time, median against worst"]


def test_every_state_is_told_in_words_and_every_runbook_it_names_is_there() -> None:
    assert TOLD.keys() == {state for states in STATES.values() for state in states}
    assert {told.runbook for told in EVERY.values()} - {""} <= {page.stem for page in RUNBOOKS}


def test_the_runbooks_can_be_elsewhere() -> None:
    board = json.loads(files("https://wiki.example.org/traceml/")["run-overview.json"])
    (constant,) = (v for v in board["templating"]["list"] if v["name"] == "runbooks")
    assert constant["query"] == "https://wiki.example.org/traceml"
    assert "${runbooks}/${__value.text}.md" in json.dumps(board)

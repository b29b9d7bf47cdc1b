"""What is made from the rules is in step with them, and leads somewhere."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import require_program
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.rules.alerts import ALERTS
from traceml.publish.rules.generate import DEPLOY, PAGE, files
from traceml.publish.rules.options import Options
from traceml.publish.rules.recording import RECORDING
from traceml.publish.rules.rule import Alert

ROOT = PAGE.parents[1]
RUNBOOKS = sorted((PAGE.parent / "runbooks").glob("*.md"))
ALL = [alert for group in ALERTS.values() for alert in group]
SECTIONS = ["First look", "Likely causes", "What to do", "Silence it", "When it goes away"]
SCREEN_AND_A_HALF = 75  # lines

SERIES = re.compile(r"(?<![\w:])(?:\w+:)?traceml_[\w:]+")

each_page = pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)


def published() -> set[str]:
    """The names under which Prometheus finds what there is."""
    names = {rule.name for rule in RECORDING}
    for metric in CATALOGUE:
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        names |= {metric.name + suffix for suffix in suffixes.get(metric.kind, [""])}
    return names


def queries(page: Path) -> list[str]:
    blocks = re.findall(r"```promql\n(.*?)```", page.read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("file", files(), ids=lambda file: file.name)
def test_what_is_made_from_the_rules_is_up_to_date(file: Path) -> None:
    assert file.read_text() == files()[file], "run `make generate`"


def test_the_tables_have_a_row_for_every_rule() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert sum("runbooks/TraceML" in row for row in rows) == len(ALL)
    assert sum(row.startswith("| `run") for row in rows) == len(RECORDING)


def test_promtool_finds_nothing_in_the_configuration_and_its_rules(promtool: str) -> None:
    checked = subprocess.run(
        [promtool, "check", "config", "--lint=all", "--lint-fatal", str(DEPLOY / "prometheus.yml")],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("SUCCESS") == 4  # itself, the files it names, their rules


def test_amtool_finds_nothing_in_the_configuration() -> None:
    amtool = require_program("amtool")
    checked = subprocess.run(
        [amtool, "check-config", str(DEPLOY / "alertmanager.yml")], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("alert", ALL, ids=lambda alert: f"{alert.name}-{alert.severity}")
def test_rules_name_only_series_that_there_are(alert: Alert) -> None:
    words = f"{alert.expr} {alert.summary} {alert.description}"
    assert set(SERIES.findall(words)) <= published()


def test_recording_rules_read_only_what_is_scraped_or_recorded_before() -> None:
    known = published() - {rule.name for rule in RECORDING}
    for rule in RECORDING:
        assert set(SERIES.findall(rule.expr)) <= known, rule.name
        known.add(rule.name)


def test_every_alert_leads_to_a_page_and_every_page_belongs_to_one() -> None:
    options = Options()
    pages = {ROOT / alert.annotations(options)["runbook_url"] for alert in ALL}
    assert pages == set(RUNBOOKS)


@each_page
def test_a_runbook_has_what_is_needed_at_night_and_fits_a_screen_and_a_half(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {page.stem}\n")
    assert "**Urgent?** " in text
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert f"amtool silence add alertname={page.stem} run=RUN" in text
    assert len(text.splitlines()) <= SCREEN_AND_A_HALF


@each_page
def test_links_of_a_runbook_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]+)(?:#([^)]*))?\)", page.read_text()):
        file = page.parent / target
        assert file.exists(), target
        titles = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
        assert not anchor or anchor in {_anchor(title) for title in titles}, anchor


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@each_page
def test_what_a_runbook_asks_prometheus_names_what_there_is(page: Path) -> None:
    asked = queries(page)
    assert asked
    assert {name for each in asked for name in SERIES.findall(each)} <= published()
    prose = " ".join(re.findall(r"`(traceml_\w+)`", page.read_text()))
    assert set(SERIES.findall(prose)) <= published()


def test_what_runbooks_ask_prometheus_can_be_pasted_into_it(promtool: str, tmp_path: Path) -> None:
    asked = [query for page in [*RUNBOOKS, PAGE] for query in queries(page)]
    rules = [{"record": f"asked:{number}", "expr": expr} for number, expr in enumerate(asked)]
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))
    checked = subprocess.run(
        [promtool, "check", "rules", "--lint=none", str(file)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(asked)} rules found" in checked.stdout

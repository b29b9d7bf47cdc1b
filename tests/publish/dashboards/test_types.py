"""The dashboards keep to the types that Grafana publishes, as TypeScript's own compiler judges."""

import shutil
from pathlib import Path

import pytest

from tests.grafana.boards import NAMES
from tests.javascript.tools import compiled
from traceml.publish.dashboards.generate import files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where what a dashboard has to be is said."""
    shutil.copy(Path(__file__).parent / "grafana.ts", tmp_path)
    return tmp_path


def dashboards() -> dict[str, str]:
    return {name: files()[f"{name}.json"] for name in NAMES}


def sources(texts: dict[str, str]) -> dict[str, str]:
    """Programs that hold them."""
    before, after = 'import type { Checked } from "./grafana.js";', "satisfies Checked;\n"
    return {
        f"{name}.ts": f"{before}\nexport default {text.strip()} {after}"
        for name, text in texts.items()
    }


def test_the_compiler_finds_nothing_in_the_dashboards(folder: Path) -> None:
    checked = compiled(folder, sources(dashboards()))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"graphTooltip": 1', '"graphToolTip": 1'),
        ('"mode": "absolute"', '"mode": "relative"'),
        ('"mergeValues": true', '"mergeValues": "yes"'),
        ('"displayMode": "basic"', '"displayMode": "plain"'),
        ('"type": "state-timeline"', '"type": "timeline"'),
    ],
)
def test_it_finds_a_field_or_value_that_grafana_does_not_know(
    folder: Path, right: str, wrong: str
) -> None:
    text = dashboards()["run-overview"]
    assert right in text
    checked = compiled(folder, sources({"run-overview": text.replace(right, wrong, 1)}))
    assert checked.returncode != 0
    assert "run-overview.ts" in checked.stdout

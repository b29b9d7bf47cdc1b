"""The dashboards as they lie in the repository: their panels, and what these ask."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Board = dict[str, Any]
FOLDER = Path(__file__).parents[2] / "grafana" / "dashboards"
NAMES = ("run-overview", "ranks", "fleet")


@dataclass(frozen=True)
class Asked:
    """One query of a panel, or of an annotation."""

    board: str
    panel: str
    expr: str
    legend: str = ""
    instant: bool = False
    exemplar: bool = False
    repeat: str = ""  # the variable for each value of which it is asked
    least_step: float = 0.0  # seconds


def read(name: str) -> Board:
    board: Board = json.loads((FOLDER / f"{name}.json").read_text())
    return board


def panels(board: Board) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked(name: str) -> Iterator[Asked]:
    """What its panels ask."""
    for panel in panels(read(name)):
        for target in panel["targets"]:
            yield of_panel(name, panel, target)


def of_panel(name: str, panel: Mapping[str, Any], target: Mapping[str, Any]) -> Asked:
    return Asked(
        name,
        panel["title"],
        target["expr"],
        target["legendFormat"],
        target["instant"],
        target["exemplar"],
        panel.get("repeat", ""),
    )


def marked(name: str) -> dict[str, Asked]:
    """What its annotations ask, by their name."""
    return {
        each["name"]: Asked(
            name,
            each["name"],
            each["target"]["expr"],
            each["titleFormat"],
            least_step=float(each["target"]["interval"].removesuffix("s")),
        )
        for each in read(name)["annotations"]["list"]
    }

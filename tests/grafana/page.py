"""A dashboard as a page: its panels where its JSON puts them, filled by a real Prometheus."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.grafana import boards, cells, charts
from tests.grafana.asking import Series, View
from tests.grafana.charts import Drawn, Sheet, drawn
from tests.grafana.graphs import over_time
from traceml.report.markup import FONT, Markup, element

WIDTH, ROW, HEAD = 1440.0, 34.0, 30.0
COLUMN = WIDTH / 24
STYLE = f"""
body {{ margin: 0; background: #eceff3; font: 13px {FONT}; width: {WIDTH:.0f}px; }}
header {{ padding: 14px 16px 6px; font-size: 20px; color: #1f2933; }}
header small {{ display: block; font-size: 12px; color: #52606d; padding-top: 4px; }}
main {{ position: relative; }}
section {{ position: absolute; box-sizing: border-box; padding: 4px; }}
article {{ background: #fff; border: 1px solid #d8dee6; border-radius: 3px; height: 100%;
  overflow: hidden; }}
h2 {{ font-size: 14px; margin: 0; padding: 12px 10px 0; color: #1f2933; }}
h3 {{ font-size: 13px; font-weight: 600; margin: 0; padding: 7px 10px; color: #1f2933; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ text-align: left; padding: 4px 10px; border-top: 1px solid #e6eaef; font-size: 12px; }}
.figures {{ display: flex; justify-content: space-around; padding-top: 6px; }}
.figures b {{ font-size: 32px; font-weight: 600; }}
.figures span {{ display: block; color: #52606d; }}
"""


@dataclass(frozen=True)
class Placed:
    """A panel, where it is in units of the grid, and what it is repeated for."""

    panel: Mapping[str, Any]
    x: int
    y: int
    repeated: dict[str, str]

    @property
    def width(self) -> float:
        return float(self.panel["gridPos"]["w"] * COLUMN)

    @property
    def height(self) -> float:
        return float(self.panel["gridPos"]["h"] * ROW)


def page(view: View, marks: Sequence[tuple[float, str]]) -> tuple[Markup, int]:
    """The page of it, and how high it is."""
    board = boards.read(view.name)
    placed = list(_placed(board, view))
    height = max(each.y * ROW + each.height for each in placed)
    head = element("header", board["title"], element("small", _chosen(view)))
    main = element(
        "main", *(_section(each, view, marks) for each in placed), style=f"height:{height:.0f}px"
    )
    style = element("style", Markup(STYLE))
    return Markup(f"<!doctype html><meta charset=utf-8>{style}{head}{main}"), round(height + 66)


def _placed(board: boards.Board, view: View) -> Iterator[Placed]:
    """Where they are, once those that are repeated have made room for themselves."""
    shift = 0
    for panel in board["panels"]:
        place = panel["gridPos"]
        repeated = view.repeated(panel.get("repeat", ""))
        in_row = panel.get("maxPerRow", 1)
        for number, more in enumerate(repeated):
            x = place["x"] + place["w"] * (number % in_row)
            yield Placed(panel, x, place["y"] + shift + place["h"] * (number // in_row), more)
        shift += place["h"] * ((len(repeated) - 1) // in_row)


def _section(placed: Placed, view: View, marks: Sequence[tuple[float, str]]) -> Markup:
    panel = placed.panel
    title = view.filled(panel["title"], **placed.repeated)
    content = element("h2", title)
    if panel["type"] != "row":
        body = _body(placed, view, marks)
        content = element("article", element("h3", title), body)
    style = (
        f"left:{placed.x * COLUMN:.0f}px;top:{placed.y * ROW:.0f}px;"
        f"width:{placed.width:.0f}px;height:{placed.height:.0f}px"
    )
    return element("section", content, style=style)


def _body(placed: Placed, view: View, marks: Sequence[tuple[float, str]]) -> Markup:
    panel = placed.panel
    asked = [boards.of_panel(view.name, panel, target) for target in panel["targets"]]
    found = [view.series(each, **placed.repeated) for each in asked]
    if panel["type"] == "table":
        return cells.table(panel, found)
    series = [
        one for each, got in zip(asked, found, strict=True) for one in drawn(each.legend, got)
    ]
    if panel["type"] == "stat":
        return cells.figures(panel, series)
    span = view.span
    sheet = Sheet(
        panel, placed.width - 10, placed.height - HEAD - 12, span.start, span.end, span.step, marks
    )
    if panel["type"] == "timeseries":
        stood_out = [point for each in asked if each.exemplar for point in view.exemplars(each)]
        points = [(float(each["timestamp"]), float(each["value"])) for each in stood_out]
        return over_time(sheet, series, points)
    if panel["type"] == "barchart":
        return charts.parts(sheet, _matrix(found[0]))
    return _DRAWN[panel["type"]](sheet, series)


_DRAWN: Mapping[str, Callable[[Sheet, Sequence[Drawn]], Markup]] = {
    "state-timeline": charts.state_rows,
    "heatmap": charts.heat_rows,
    "bargauge": charts.bars,
}


def _matrix(found: Sequence[Series]) -> dict[str, dict[str, float]]:
    """By rank and phase."""
    rows: dict[str, dict[str, float]] = {}
    for each in found:
        labels = each["metric"]
        rows.setdefault(labels["rank"], {})[labels["phase"]] = float(each["values"][-1][1])
    return rows


def _chosen(view: View) -> str:
    """What somebody would see in the boxes above the panels."""
    values = {name: view.filled.values[name] for name in view.filled.options}
    return ", ".join(f"{name}: {'all' if v == '.+' else v}" for name, v in values.items())

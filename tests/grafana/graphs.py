"""Panels that are drawn over time: lines, or areas on top of each other."""

from collections.abc import Sequence

from tests.grafana.charts import FOOT, LEFT, RIGHT, TOP, Drawn, Sheet, colour_of, legend_of
from tests.grafana.shown import COLOURS, Look, figure
from traceml.report.markup import Markup, element, joined
from traceml.report.svg import INK, LINE, Scale, line, steps, words

Points = Sequence[tuple[float, float]]


def over_time(sheet: Sheet, series: Sequence[Drawn], exemplars: Points = ()) -> Markup:
    """The series, with limits, annotations, and the steps that stood out."""
    colours = [colour_of(sheet, each.name, number) for number, each in enumerate(series)]
    names = [each.name for each in series]
    legend, used = legend_of(list(zip(names, colours, strict=True)), sheet)
    bottom = sheet.height - FOOT - used
    is_stacked = "stacking" in sheet.panel["fieldConfig"]["defaults"]["custom"]
    areas = _stacked(series) if is_stacked else [(each.points, []) for each in series]
    is_right = [_is_right(sheet, name) for name in names]
    left = [tops for (tops, _), other in zip(areas, is_right, strict=True) if not other]
    marks = steps(_highest([*left, exemplars]), 4)
    up = Scale(0.0, marks[-1], bottom, TOP)
    right = [tops for (tops, _), other in zip(areas, is_right, strict=True) if other]
    up_right = Scale(0.0, steps(_highest(right), 4)[-1], bottom, TOP)
    shapes = [
        _shape(sheet, up_right if other else up, area, colour)
        for area, colour, other in zip(areas, colours, is_right, strict=True)
    ]
    return sheet.canvas(
        _axis(sheet, up, marks), *shapes, _limits(sheet, up), sheet.annotations(TOP, bottom),
        _dots(sheet, up, exemplars), sheet.clock(bottom), legend,
    )  # fmt: skip


def _is_right(sheet: Sheet, name: str) -> bool:
    return Look.of(sheet.panel, name).properties.get("custom.axisPlacement") == "right"


def _axis(sheet: Sheet, up: Scale, marks: Sequence[float]) -> Markup:
    unit = Look.of(sheet.panel, "").properties["unit"]
    return joined(
        *(
            joined(
                line(LEFT, up(mark), sheet.width - RIGHT, up(mark), LINE),
                words(LEFT - 8, up(mark) + 4, figure(unit, mark), "end"),
            )
            for mark in marks
        )
    )


def _limits(sheet: Sheet, up: Scale) -> Markup:
    if sheet.panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "off":
        return Markup("")
    return joined(
        *(
            line(LEFT, up(at), sheet.width - RIGHT, up(at), COLOURS[colour], stroke_dasharray="6 4")
            for at, colour in Look.of(sheet.panel, "").limits[1:]
            if at <= up.high
        )
    )


def _dots(sheet: Sheet, up: Scale, exemplars: Points) -> Markup:
    return joined(
        *(
            element("circle", cx=sheet.across(at), cy=up(value), r=3.5, fill="none", stroke=INK)
            for at, value in exemplars
        )
    )


def _stacked(series: Sequence[Drawn]) -> list[tuple[list[tuple[float, float]], Points]]:
    """Each on top of those before it: its upper edge and its lower one."""
    heights: dict[float, float] = {}
    areas: list[tuple[list[tuple[float, float]], Points]] = []
    for each in series:
        below = [(at, heights.get(at, 0.0)) for at, _ in each.points]
        heights |= {at: heights.get(at, 0.0) + value for at, value in each.points}
        areas.append(([(at, heights[at]) for at, _ in each.points], below))
    return areas


def _shape(sheet: Sheet, up: Scale, area: tuple[Points, Points], colour: str) -> Markup:
    """A line with gaps where nothing was scraped; or an area."""
    tops, below = area
    edge = [(sheet.across(at), up(value)) for at, value in tops]
    if below:
        back = [(sheet.across(at), up(value)) for at, value in reversed(below)]
        return element("polygon", points=_places([*edge, *back]), fill=colour, fill_opacity="0.85")
    pieces: list[list[tuple[float, float]]] = []
    before = float("-inf")
    for (at, _), place in zip(tops, edge, strict=True):
        if at - before > 2 * sheet.step:
            pieces.append([])
        pieces[-1].append(place)
        before = at
    return joined(
        *(
            element(
                "polyline", points=_places(each), fill="none", stroke=colour, stroke_width="1.5"
            )
            for each in pieces
        )
    )


def _places(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _highest(lines: Sequence[Points]) -> float:
    return max((value for points in lines for _, value in points), default=1.0)

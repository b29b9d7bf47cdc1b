"""Panels that are drawn as rows: states, heat, bars. And what all that are drawn have."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.grafana.asking import Series
from tests.grafana.shown import PALETTE, Look, figure, named
from traceml.report.markup import Markup, element, joined
from traceml.report.svg import INK, LINE, SOFT, Scale, box, line, steps, times, width_of, words

LEFT, RIGHT, TOP, FOOT = 64.0, 14.0, 8.0, 22.0
LEGEND_ROW = 18.0


@dataclass(frozen=True)
class Drawn:
    """A series with its name."""

    name: str
    points: list[tuple[float, float]]

    @property
    def last(self) -> float:
        return self.points[-1][1]


@dataclass(frozen=True)
class Sheet:
    """Where a panel is drawn, and over which time."""

    panel: Mapping[str, Any]
    width: float
    height: float
    start: float
    end: float
    step: float
    marks: Sequence[tuple[float, str]] = ()  # annotations: when, and in which colour

    @property
    def across(self) -> Scale:
        return Scale(self.start, self.end, LEFT, self.width - RIGHT)

    def canvas(self, *content: Markup) -> Markup:
        return element(
            "svg", *content, width=self.width, height=self.height, font_size=11,
            viewBox=f"0 0 {self.width:.0f} {self.height:.0f}",
        )  # fmt: skip

    def clock(self, bottom: float) -> Markup:
        """Minutes since the time range began."""
        marks = times(0.0, self.end - self.start, 6)
        texts = [f"{at / 60:g} min" if at else "0" for at in marks]
        places = [self.across(self.start + at) for at in marks]
        return joined(
            *(words(x, bottom + 14, text, "middle") for x, text in zip(places, texts, strict=True))
        )

    def annotations(self, top: float, bottom: float) -> Markup:
        return joined(
            *(
                line(self.across(at), top, self.across(at), bottom, colour, stroke_dasharray="2 3")
                for at, colour in self.marks
            )
        )


def drawn(legend: str, found: Sequence[Series]) -> Iterator[Drawn]:
    for each in found:
        points = [(float(at), float(text)) for at, text in each["values"]]
        yield Drawn(named(legend, each["metric"]), [p for p in points if math.isfinite(p[1])])


def state_rows(sheet: Sheet, series: Sequence[Drawn]) -> Markup:
    """A row for each series, in the colours of its values."""
    left = _room_for(series)
    across = Scale(sheet.start, sheet.end, left, sheet.width - RIGHT)
    row = min((sheet.height - FOOT - TOP) / len(series), 34.0)
    rows = []
    for number, each in enumerate(series):
        look, y = Look.of(sheet.panel, each.name), TOP + number * row
        rows.append(words(left - 8, y + row / 2 + 4, each.name, "end", INK))
        rows += [
            box(across(at - sheet.step), y + 3, across(at) - across(at - sheet.step) + 0.6,
                row - 6, look.words(value)[1] or LINE)
            for at, value in each.points
        ]  # fmt: skip
    bottom = TOP + len(series) * row
    marked = [
        line(across(at), TOP, across(at), bottom, colour, stroke_dasharray="2 3")
        for at, colour in sheet.marks
    ]
    clock = [
        words(across(sheet.start + at), bottom + 14, f"{at / 60:g} min" if at else "0", "middle")
        for at in times(0.0, sheet.end - sheet.start, 8)
    ]
    return sheet.canvas(*rows, *marked, *clock)


def heat_rows(sheet: Sheet, series: Sequence[Drawn]) -> Markup:
    """A row for each series, the hotter the larger."""
    everything = [value for each in series for _, value in each.points]
    low, high = min(everything), max(everything)
    row = (sheet.height - FOOT - TOP - LEGEND_ROW) / len(series)
    rows = []
    for number, each in enumerate(sorted(series, key=lambda each: -float(each.name))):
        y = TOP + number * row
        rows.append(words(LEFT - 8, y + row / 2 + 4, f"rank {each.name}", "end", INK))
        rows += [
            box(sheet.across(at - sheet.step), y, sheet.across(at) - sheet.across(at - sheet.step)
                + 0.6, row - 1, _heat((value - low) / ((high - low) or 1)))
            for at, value in each.points
        ]  # fmt: skip
    bottom = TOP + len(series) * row
    unit = Look.of(sheet.panel, "").properties["unit"]
    scale = [box(LEFT + 60 + n, bottom + 22, 1.6, 10, _heat(n / 199)) for n in range(200)]
    ends = [
        words(LEFT + 52, bottom + 31, figure(unit, low), "end"),
        words(LEFT + 268, bottom + 31, figure(unit, high)),
    ]
    return sheet.canvas(*rows, sheet.annotations(TOP, bottom), sheet.clock(bottom), *scale, *ends)


def bars(sheet: Sheet, series: Sequence[Drawn]) -> Markup:
    """A bar for each series."""
    left = _room_for(series)
    most = Look.of(sheet.panel, "").properties.get("max") or max(each.last for each in series)
    across = Scale(0.0, most or 1.0, left, sheet.width - 90)
    row = min((sheet.height - 2 * TOP) / len(series), 30.0)
    rows = []
    for number, each in enumerate(series):
        y, look = TOP + number * row, Look.of(sheet.panel, each.name)
        rows += [
            words(left - 8, y + row / 2 + 4, each.name, "end", INK),
            box(left, y + 2, across.end - left, row - 4, "#eef1f4"),
            box(left, y + 2, across(each.last) - left, row - 4, look.colour(each.last)),
            words(across.end + 8, y + row / 2 + 4, look.figure(each.last), fill=INK),
        ]
    return sheet.canvas(*rows)


def parts(sheet: Sheet, rows: Mapping[str, Mapping[str, float]]) -> Markup:
    """A bar for each row, made of its parts."""
    names = sorted({name for parts in rows.values() for name in parts})
    legend, used = legend_of(
        [(name, colour_of(sheet, name, n)) for n, name in enumerate(names)], sheet
    )
    marks = steps(max(sum(parts.values()) for parts in rows.values()), 5)
    across = Scale(0.0, marks[-1], LEFT, sheet.width - 30)
    bottom = sheet.height - FOOT - used
    row = min((bottom - TOP) / len(rows), 46.0)
    shapes = []
    for number, (label, given) in enumerate(rows.items()):
        y, at = TOP + number * row, 0.0
        shapes.append(words(LEFT - 8, y + row / 2 + 4, f"rank {label}", "end", INK))
        for n, name in enumerate(names):
            begin, end = across(at), across(at + given.get(name, 0.0))
            shapes.append(box(begin, y + 4, end - begin, row - 8, colour_of(sheet, name, n)))
            at += given.get(name, 0.0)
    below = TOP + len(rows) * row
    unit = Look.of(sheet.panel, "").properties["unit"]
    axis = [words(across(mark), below + 14, figure(unit, mark), "middle") for mark in marks]
    return sheet.canvas(*shapes, *axis, legend)


def _room_for(series: Sequence[Drawn]) -> float:
    """On the left, for names in capitals."""
    return 20 + max(1.1 * width_of(each.name) for each in series)


def colour_of(sheet: Sheet, name: str, number: int) -> str:
    return Look.of(sheet.panel, name).fixed or PALETTE[number % len(PALETTE)]


def legend_of(names: Sequence[tuple[str, str]], sheet: Sheet) -> tuple[Markup, float]:
    """Below the panel, in as many rows as it takes; and how high they are."""
    x, row, placed = LEFT, 0, []
    for name, colour in names:
        if x > LEFT and x + 30 + width_of(name) > sheet.width:
            x, row = LEFT, row + 1
        placed.append((x, row, name, colour))
        x += 30 + width_of(name)
    height = (row + 1) * LEGEND_ROW
    top = sheet.height - height + 12
    return joined(
        *(
            joined(
                box(x, top + row * LEGEND_ROW - 9, 10, 10, colour, rx=2),
                words(x + 15, top + row * LEGEND_ROW, name, fill=SOFT),
            )
            for x, row, name, colour in placed
        )
    ), height


def _heat(share: float) -> str:
    """From dark blue through green and yellow to red."""
    stops = ((48, 60, 140), (60, 150, 210), (110, 200, 110), (240, 200, 60), (200, 40, 30))
    at = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(at), len(stops) - 2)
    mixed = (
        a + (b - a) * (at - index) for a, b in zip(stops[index], stops[index + 1], strict=True)
    )
    return "#" + "".join(f"{round(part):02x}" for part in mixed)

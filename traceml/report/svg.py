"""What pictures are made of: a canvas, scales, axes, words."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from traceml import units
from traceml.report.markup import FONT, Markup, element, joined

WIDTH = 880.0  # of every picture; a viewer scales it
_LEAST = 620.0  # its words can still be read
INK, SOFT, LINE, GROUND = "#1f2933", "#52606d", "#d8dee6", "#f4f6f8"

_TIMES = (
    *(1e-6 * 10**n * step for n in range(6) for step in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(hours * 3600 for hours in (1, 2, 3, 6, 12, 24, 48, 120, 240, 480, 1200, 2400, 4800)),
)  # that a clock is read by


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places along an axis."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; one beyond the ends is at the end."""
        if self.high <= self.low:
            return self.begin
        share = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        return self.begin + share * (self.end - self.begin)


def canvas(height: float, *content: Markup | None, label: str) -> Markup:
    """A picture of this height, and what it shows for those who can't see it."""
    return element(
        "svg", *content,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", width="100%",
        role="img", aria_label=label, font_family=FONT, font_size=12,
        style=f"display:block;min-width:{_LEAST:.0f}px;max-width:{WIDTH:.0f}px;height:auto",
    )  # fmt: skip


def words(
    x: float, y: float, text: str, anchor: str = "start", fill: str = SOFT, **more: object
) -> Markup:
    """A line of text, its baseline at y."""
    return element("text", text, x=x, y=y, text_anchor=anchor, fill=fill, **more)


def box(
    x: float, y: float, width: float, height: float, fill: str, tip: str = "", **more: object
) -> Markup:
    """A rectangle; `tip` shows when one points at it."""
    content = (element("title", tip),) if tip else ()
    return element(
        "rect", *content, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), fill=fill,
        **more,
    )  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, **more: object) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)


def path(points: Iterable[tuple[float, float]], stroke: str, **more: object) -> Markup:
    """A line through these points."""
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=drawn, fill="none", stroke=stroke, **more)


def steps(high: float, about: int = 5) -> list[float]:
    """Round values from 0 up to at least `high`, a few of them."""
    if not 1e-300 < high < 1e300:
        return [0.0, 1.0]
    rough = high / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [step * number for number in range(math.ceil(high / step - 1e-6) + 1)]


def times(low: float, high: float, about: int = 8) -> list[float]:
    """Times within these: seconds, minutes, hours as a clock has them."""
    span = high - low
    step = next((size for size in _TIMES if size * about >= span), max(span / about, 1e-9))
    first, last = math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6)
    return [step * number for number in range(first, last + 1)]


def width_of(text: str) -> float:
    """About how wide it will be, at the size of 12."""
    return sum(3.7 if each in "iljtfr.,:;'|() " else 7.0 for each in text)


def grid(
    scale: Scale, values: Sequence[float], shown: Callable[[float], str], left: float, right: float
) -> Markup:
    """Lines across, with their values on the left."""
    return joined(
        *(
            joined(
                line(left, scale(value), right, scale(value)),
                words(left - 8, scale(value) + 4, shown(value), "end"),
            )
            for value in values
        )
    )


def clock_axis(scale: Scale, y: float) -> Markup:
    """The time of the run, below everything."""
    marks = times(scale.low, scale.high)
    return joined(
        line(scale.begin, y, scale.end, y, SOFT),
        *(
            joined(
                line(scale(at), y, scale(at), y + 4, SOFT),
                words(scale(at), y + 18, _clock(at), "middle"),
            )
            for at in marks
        ),
    )


def legend(names: Sequence[tuple[str, str]], x: float, y: float) -> Markup:
    """Colours and what they stand for, in a row."""
    drawn = []
    for name, colour in names:
        drawn += [box(x, y - 9, 10, 10, colour, rx=2), words(x + 15, y, name)]
        x += 15 + width_of(name) + 16
    return joined(*drawn)


def _clock(at: float) -> str:
    if at >= 60 or not at:
        return units.duration(at)
    return f"{at:g} s" if at >= 1 else f"{at * 1e3:g} ms"

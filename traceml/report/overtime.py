"""The picture of the whole run along its time: steps, what held them back, memory."""

from collections.abc import Iterator, Sequence

from traceml import units
from traceml.diagnosis.finding import title
from traceml.report import facts
from traceml.report.document import Part, Summary, Turn
from traceml.report.markup import Markup, element, joined
from traceml.report.pictures import COLOURS
from traceml.report.svg import (
    GROUND,
    INK,
    LINE,
    SOFT,
    WIDTH,
    Scale,
    box,
    canvas,
    clock_axis,
    grid,
    legend,
    line,
    path,
    steps,
    width_of,
    words,
)
from traceml.wire.columns import PHASES

SEVERITY_COLOURS = {"info": "#7fb28a", "warning": "#e9a93a", "critical": "#c0392b"}
_NO_DATA = "#c3cad3"
_BAND = "#dbe7f3"

_LEFT, _RIGHT = 64.0, WIDTH - 16
_SHOWN_SHARE = 0.03  # of the step: a phase that is less at all times is no line
_LEAD = 0.05  # of the picture: what is shown of the time before the first step
_HEADROOM = 3.0  # over the means: longer steps are marked at the edge


def over_time(summary: Summary) -> Markup | None:
    """Panels one below the other, on the same axis of time."""
    distribution = summary.step_time.distribution
    parts = distribution.parts if distribution else ()
    if not parts:
        return None
    end = max(summary.run.duration_seconds, parts[-1].ended_after_seconds)
    begin = _begin(parts)
    across = Scale(max(begin - _LEAD * (end - begin), 0.0), end, _LEFT, _RIGHT)
    drawn, y = [_steps(parts, across, len(summary.ranks) > 1)], 250.0
    if summary.step_time.timeline:
        drawn.append(_turns(summary.step_time.timeline, across, y))
        y += 58
    if any(part.memory_worst_bytes for part in parts):
        drawn.append(_memory(parts, across, y, len(summary.ranks) > 1))
        y += 116
    drawn.append(clock_axis(across, y))
    return canvas(y + 24, *drawn, label="steps, findings and memory over the run")


def _steps(parts: Sequence[Part], across: Scale, several: bool) -> Markup:
    top, bottom = 30.0, 196.0
    mean = max(part.seconds for part in parts)
    longest = max(part.longest_seconds for part in parts)
    marks = steps(max(mean, min(longest, _HEADROOM * mean)) * 1.02, 4)
    up = Scale(0.0, marks[-1], bottom, top)
    phases = [
        phase
        for phase in PHASES
        if any(part.phases.get(phase, 0.0) > _SHOWN_SHARE * part.seconds for part in parts)
    ]
    names = [("step", INK), ("longest", _BAND), *((phase, COLOURS[phase]) for phase in phases)]
    return joined(
        legend(names, _LEFT, 14),
        words(_RIGHT, 14, "phases: of the median rank", "end") if several else None,
        grid(up, marks, units.seconds, _LEFT, _RIGHT),
        *_bands(parts, across, up),
        *(_course(parts, phase, across, up) for phase in phases),
        path(_stairs([(part, part.seconds) for part in parts], across, up), INK, stroke_width=2),
        *_left_out(parts, across, bottom),
    )


def _spans(parts: Sequence[Part]) -> Iterator[tuple[Part, float]]:
    """Each part, and when it began."""
    begin = _begin(parts)
    for part in parts:
        yield part, begin
        begin = part.ended_after_seconds


def _begin(parts: Sequence[Part]) -> float:
    """When the first part began: as long before its end as its steps took."""
    first = parts[0]
    return max(first.ended_after_seconds - first.steps * first.seconds, 0.0)


def _bands(parts: Sequence[Part], across: Scale, up: Scale) -> Iterator[Markup]:
    for part, begin in _spans(parts):
        x, width = across(begin), across(part.ended_after_seconds) - across(begin)
        y = up(part.longest_seconds)
        tip = (
            f"{part.steps} steps until {units.duration(part.ended_after_seconds)}: "
            f"mean {units.seconds(part.seconds)}, longest {units.seconds(part.longest_seconds)}"
        )
        yield box(x, y, max(width, 1.0), up(part.seconds) - y, _BAND, tip)
        if part.longest_seconds > up.high:
            middle = x + width / 2
            peak = f"{middle - 4:.1f},{y + 6:.1f} {middle:.1f},{y:.1f} {middle + 4:.1f},{y + 6:.1f}"
            yield element("polygon", element("title", tip), points=peak, fill=SOFT)


def _course(parts: Sequence[Part], phase: str, across: Scale, up: Scale) -> Markup:
    known = [(part, part.phases[phase]) for part in parts if phase in part.phases]
    colour = COLOURS[phase]
    return path(_stairs(known, across, up), colour, stroke_width=1.5, opacity=0.9)


def _stairs(
    values: Sequence[tuple[Part, float]], across: Scale, up: Scale
) -> Iterator[tuple[float, float]]:
    """A value holds from the beginning of its part to its end."""
    for (part, begin), (_, value) in zip(_spans([of for of, _ in values]), values, strict=True):
        yield across(begin), up(value)
        yield across(part.ended_after_seconds), up(value)


def _left_out(parts: Sequence[Part], across: Scale, bottom: float) -> Iterator[Markup]:
    """Where tagged steps were, below the axis."""
    if not any(part.excluded for part in parts):
        return
    y = bottom + 14
    yield words(_LEFT - 8, y + 10, "left out", "end")
    yield line(_LEFT, y + 10, _RIGHT, y + 10, LINE)
    for part, begin in _spans(parts):
        if part.excluded:
            x, end = across(begin), across(part.ended_after_seconds)
            tip = f"{part.excluded} left out until {units.duration(part.ended_after_seconds)}"
            yield box(x, y, max(end - x, 2.5), 10, SOFT, tip)


def _turns(turns: Sequence[Turn], across: Scale, y: float) -> Markup:
    height = 22.0
    ends = [*(turn.after_seconds for turn in turns[1:]), across.high]
    return joined(
        words(_LEFT, y, "What held back the latest steps", fill=INK, font_weight=600),
        box(_LEFT, y + 8, _RIGHT - _LEFT, height, GROUND),
        *(_turn(turn, end, across, y + 8, height) for turn, end in zip(turns, ends, strict=True)),
    )


def _turn(turn: Turn, end: float, across: Scale, y: float, height: float) -> Markup:
    x, width = across(turn.after_seconds), across(end) - across(turn.after_seconds)
    at = facts.where(turn.rank, turn.phase)
    name = title(turn.state)
    span = f"{units.duration(turn.after_seconds)} to {units.duration(end)}"
    tip = f"{span}: {name} ({turn.severity})" + (f", {at}" if at else "")
    colour = _NO_DATA if turn.state == "NO_DATA" else SEVERITY_COLOURS[turn.severity]
    long, short = f"{name}  {at}".rstrip(), name
    shown = next((text for text in (long, short) if width_of(text) + 10 < width), "")
    ink = "#ffffff" if turn.severity == "critical" else INK
    return joined(
        box(x, y, max(width - 1, 1.0), height, colour, tip),
        words(x + 6, y + 15, shown, fill=ink) if shown else None,
    )


def _memory(parts: Sequence[Part], across: Scale, y: float, several: bool) -> Markup:
    top, bottom = y + 12, y + 100
    worst = [(part, part.memory_worst_bytes or 0.0) for part in parts]
    typical = [(part, part.memory_median_bytes or 0.0) for part in parts]
    marks = _binary_steps(max(value for _, value in worst))
    up = Scale(0.0, marks[-1], bottom, top)
    colour = COLOURS["optimizer"]
    heading = "Memory, worst and median rank" if several else "Memory"
    return joined(
        words(_LEFT, y, heading, fill=INK, font_weight=600),
        grid(up, marks, units.bytes_, _LEFT, _RIGHT),
        path(_stairs(typical, across, up), colour, stroke_width=1.5, stroke_dasharray="3 3")
        if several
        else None,
        path(_stairs(worst, across, up), colour, stroke_width=2),
    )


def _binary_steps(most: float) -> list[float]:
    """Round amounts of memory: steps of a power of 1024."""
    unit = next((2.0 ** (10 * n) for n in (4, 3, 2, 1) if most >= 2.0 ** (10 * n)), 1.0)
    return [mark * unit for mark in steps(most / unit, 3)]

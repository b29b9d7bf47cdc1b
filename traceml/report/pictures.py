"""The pictures of a summary that show no time: phases by rank, lengths of steps, memory."""

import math
from collections.abc import Sequence

from traceml import units
from traceml.diagnosis.finding import INFO
from traceml.report.document import Distribution, Rank, Summary
from traceml.report.markup import Markup, element, joined
from traceml.report.svg import (
    GROUND,
    INK,
    LINE,
    SOFT,
    WIDTH,
    Scale,
    box,
    canvas,
    grid,
    legend,
    line,
    steps,
    times,
    width_of,
    words,
)
from traceml.report.table import heaviest
from traceml.snapshot import RankTimes, Statistics
from traceml.wire.columns import PHASES

COLOURS = {
    "dataloader": "#e07b39",
    "h2d": "#f2c14e",
    "forward": "#3d7ebf",
    "backward": "#1f4e79",
    "optimizer": "#3aa6a0",
    "collective_wait": "#c3cad3",
    "other": "#8e6cab",
}
ALARM = "#c0392b"

_LEFT, _RIGHT = 64.0, WIDTH - 84
_ROW, _BAR = 26.0, 18.0
_MOST_BINS = 60
_MOST_MARKS = 12


def phases_by_rank(statistics: Statistics) -> Markup:
    """Where the step of each rank goes, the phases one behind the other."""
    ranks = {rank: statistics.ranks[rank] for rank in heaviest(statistics)}
    phases = [phase for phase in PHASES if phase in statistics.phases]
    longest = max(sum(of.phases.values()) for of in ranks.values())
    scale = Scale(0.0, longest, _LEFT, _RIGHT)
    rows = [
        _rank_row(rank, of, scale, 34 + _ROW * number)
        for number, (rank, of) in enumerate(ranks.items())
    ]
    names = [(phase, COLOURS[phase]) for phase in phases]
    return canvas(
        40 + _ROW * len(ranks), legend(names, _LEFT, 14), *rows,
        label="time of a typical step by phase and rank",
    )  # fmt: skip


def _rank_row(rank: int, of: RankTimes, scale: Scale, y: float) -> Markup:
    drawn = [words(_LEFT - 8, y + 13, f"r{rank}", "end", INK)]
    at = 0.0
    for phase in PHASES:
        seconds = of.phases.get(phase, 0.0)
        begin, end = scale(at), scale(at + seconds)
        at += seconds
        tip = f"rank {rank}, {phase}: {units.seconds(seconds)}"
        drawn.append(box(begin, y, end - begin, _BAR, COLOURS[phase], tip))
        shown = units.seconds(seconds)
        if end - begin > width_of(shown) + 6:
            ink = INK if phase in ("collective_wait", "h2d") else "#ffffff"
            drawn.append(words((begin + end) / 2, y + 13, shown, "middle", ink, font_size=11))
    drawn.append(words(scale(at) + 8, y + 13, units.seconds(of.step_seconds)))
    return joined(*drawn)


def lengths(distribution: Distribution, quantiles: Sequence[tuple[str, float]]) -> Markup | None:
    """How many steps took how long, on a logarithmic axis."""
    bounds = [bound for bound in distribution.bounds_seconds if bound > 0]
    bins = list(zip(bounds, bounds[1:], distribution.counts[1:], strict=False))
    if not bins:
        return None
    bins = _coarser(bins)
    top, bottom, height = 34.0, 190.0, 230.0
    low, high = math.log(bins[0][0]), math.log(bins[-1][1])
    across = Scale(low, high, _LEFT, _RIGHT)
    marks = [mark for mark in steps(max(count for _, _, count in bins), 4) if mark.is_integer()]
    up = Scale(0.0, marks[-1], bottom, top)
    bars = [_bar(each, across, up) for each in bins]
    axis = [
        words(across(math.log(at)), bottom + 18, units.seconds(at), "middle")
        for at in _marks(bins[0][0], bins[-1][1])
    ]
    return canvas(
        height, grid(up, marks, lambda value: f"{value:g}", _LEFT, _RIGHT), *bars, *axis,
        line(_LEFT, bottom, _RIGHT, bottom, SOFT),
        *_quantile_marks(quantiles, across, top, bottom),
        words(_RIGHT, height - 5, "length of a step", "end"),
        label="how many steps took how long",
    )  # fmt: skip


Bin = tuple[float, float, int]


def _coarser(bins: Sequence[Bin]) -> list[Bin]:
    """So few of them that each can be seen."""
    many = -(-len(bins) // _MOST_BINS)
    groups = [bins[first : first + many] for first in range(0, len(bins), many)]
    return [(of[0][0], of[-1][1], sum(count for _, _, count in of)) for of in groups]


def _bar(of: Bin, across: Scale, up: Scale) -> Markup | None:
    low, high, count = of
    if not count:
        return None
    begin, end = across(math.log(low)), across(math.log(high))
    y = min(up(count), up.begin - 1.5)  # a single step can be seen as well
    tip = f"{units.seconds(low)} to {units.seconds(high)}: {count} steps"
    return box(begin + 0.5, y, end - begin - 1, up.begin - y, COLOURS["forward"], tip)


def _marks(low: float, high: float) -> list[float]:
    """Round lengths within these, a few of them."""
    if high < 4 * low:
        return times(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers for factor in (1.0, 2.0, 5.0)]
    found = [mark for mark in found if low <= mark <= high]
    return found[:: -(-len(found) // _MOST_MARKS)]


def _quantile_marks(
    quantiles: Sequence[tuple[str, float]], across: Scale, top: float, bottom: float
) -> list[Markup]:
    """Those whose names have room beside those before."""
    drawn, taken = [], -math.inf
    for name, seconds in quantiles:
        x = across(math.log(max(seconds, 1e-9)))
        if x < taken:
            continue
        label = f"{name} {units.seconds(seconds)}"
        drawn.append(line(x, top - 6, x, bottom, INK, stroke_dasharray="3 3"))
        drawn.append(words(x, top - 12, label, "middle", INK))
        taken = x + width_of(label) + 6
    return drawn


def memory_by_rank(summary: Summary, shown: Sequence[int]) -> Markup | None:
    """The highest memory of each rank, against what it may use."""
    ranks = [rank for rank in summary.ranks if rank.rank in shown and _peak(rank) > 0]
    if not ranks:
        return None
    most = max(max(_peak(rank), _held(rank), rank.memory.limit_bytes or 0.0) for rank in ranks)
    scale = Scale(0.0, most, _LEFT, _RIGHT)
    finding = summary.step_memory.diagnosis
    accused = finding.rank if finding.severity != INFO else None
    rows = [
        _memory_row(rank, scale, 8 + _ROW * number, rank.rank == accused)
        for number, rank in enumerate(ranks)
    ]
    return canvas(12 + _ROW * len(ranks), *rows, label="highest memory by rank, and its limit")


def _peak(rank: Rank) -> float:
    memory = rank.memory
    return memory.allocated_peak_bytes or memory.rss_peak_bytes or 0.0


def _held(rank: Rank) -> float:
    return rank.memory.reserved_peak_bytes or 0.0


def _memory_row(rank: Rank, scale: Scale, y: float, is_accused: bool) -> Markup:
    peak, limit = _peak(rank), rank.memory.limit_bytes
    reserved = _held(rank)
    share = f"{units.ratio(peak / limit)} of {units.bytes_(limit)}" if limit else "limit unknown"
    held = f"reserved {units.bytes_(reserved)}"
    colour = ALARM if is_accused else COLOURS["forward"]
    return joined(
        words(_LEFT - 8, y + 13, f"r{rank.rank}", "end", INK),
        box(_LEFT, y, scale(limit or peak) - _LEFT, _BAR, GROUND, stroke=LINE),
        box(_LEFT, y, scale(reserved) - _LEFT, _BAR, "#a9cbe8", held),
        box(_LEFT, y, scale(peak) - _LEFT, _BAR, colour, share),
        element(
            "text", element("tspan", units.bytes_(peak), font_weight=600), f"  {share}",
            **_beside(scale(peak), scale(max(peak, reserved)), y),
        ),
    )  # fmt: skip


def _beside(inner: float, outer: float, y: float) -> dict[str, object]:
    """Where words stand: behind the bars, or within the inner one where those reach too far."""
    if outer > _RIGHT - 130:
        return {"x": inner - 8, "y": y + 13, "text_anchor": "end", "fill": "#ffffff"}
    return {"x": outer + 8, "y": y + 13, "text_anchor": "start", "fill": SOFT}

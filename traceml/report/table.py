"""The phase table: the one way in which phases are shown, wherever they are shown."""

from collections.abc import Iterator, Sequence

from traceml import units
from traceml.snapshot import Spread, Statistics
from traceml.wire.columns import PHASES

_BAR = 20
_RANK_ROWS = 16


def phase_table(statistics: Statistics) -> list[str]:
    """Median and worst rank of each phase, in lines of less than 100 columns."""
    if statistics.step is None:
        return ["  no completed step to show"]
    alone = len(statistics.ranks) == 1
    header = ("phase", *(("time",) if alone else ("median", "worst", "rank", "skew")), "share", "")
    rows = [
        (phase, *_cells(of.spread, alone), units.ratio(of.share_ratio), _bar(of.share_ratio))
        for phase, of in statistics.phases.items()
    ]
    total = ("step", *_cells(statistics.step, alone), "", "")
    return list(_aligned([header, *rows, total], left=(0, len(header) - 1)))


def rank_table(statistics: Statistics) -> list[str]:
    """One row a rank: its own work, its waiting, and where its time goes."""
    shown = _heaviest(statistics)
    phases = [phase for phase in PHASES if phase in statistics.phases]
    header = ("rank", "step", "own work", *(phase.removeprefix("collective_") for phase in phases))
    rows = []
    for rank in shown:
        times = statistics.ranks[rank]
        cells = (units.seconds(times.phases.get(phase)) for phase in phases)
        own = units.seconds(times.own_seconds)
        rows.append((f"r{rank}", units.seconds(times.step_seconds), own, *cells))
    left_out = len(statistics.ranks) - len(shown)
    more = [f"  ... and {left_out} ranks with less own work"] if left_out else []
    return [*_aligned([header, *rows], left=(0,)), *more]


def _heaviest(statistics: Statistics) -> list[int]:
    own = {rank: times.own_seconds or 0.0 for rank, times in statistics.ranks.items()}
    return sorted(sorted(own, key=lambda rank: -own[rank])[:_RANK_ROWS])


def _cells(spread: Spread, alone: bool) -> tuple[str, ...]:
    if alone:  # nobody to compare it with
        return (units.seconds(spread.median),)
    return (
        units.seconds(spread.median),
        units.seconds(spread.worst),
        f"r{spread.worst_rank}",
        units.ratio(spread.skew_ratio),
    )


def _bar(share: float | None) -> str:
    return "█" * round(min(share or 0.0, 1.0) * _BAR)


def _aligned(rows: Sequence[Sequence[str]], left: tuple[int, ...]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield ("  " + "  ".join(cells)).rstrip()

"""The phase table: the one way in which phases are shown, wherever they are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from traceml import units
from traceml.printable import one_line
from traceml.snapshot import Spread, Statistics
from traceml.wire.columns import PHASES

_BAR = 20
_RANK_ROWS = 16


@dataclass(frozen=True, slots=True)
class Table:
    """Cells for whoever lays them out; the first column names the row, all others are figures."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[float, ...] = ()  # beside each row, of a whole; none at all if empty
    remark: str = ""  # below


def phase_cells(statistics: Statistics) -> Table:
    """Median and worst rank of each phase, and of the step last."""
    if statistics.step is None:
        return Table((), (), remark="no completed step to show")
    alone = len(statistics.ranks) == 1
    phases = statistics.phases.items()
    rows = [(phase, *_cells(of.spread, alone), units.ratio(of.share_ratio)) for phase, of in phases]
    total = ("step", *_cells(statistics.step, alone), "")
    return Table(
        header=("phase", *(("time",) if alone else ("median", "worst", "rank", "skew")), "share"),
        rows=(*rows, total),
        bars=(*(min(of.share_ratio or 0.0, 1.0) for _, of in phases), 0.0),
    )


def rank_cells(statistics: Statistics) -> Table:
    """One row a rank: its own work, its waiting, and where its time goes."""
    shown = heaviest(statistics)
    phases = [phase for phase in PHASES if phase in statistics.phases]
    rows = []
    for rank in shown:
        times = statistics.ranks[rank]
        cells = (units.seconds(times.phases.get(phase)) for phase in phases)
        own = units.seconds(times.own_seconds)
        rows.append((f"r{rank}", units.seconds(times.step_seconds), own, *cells))
    left_out = len(statistics.ranks) - len(shown)
    return Table(
        ("rank", "step", "own work", *(phase.removeprefix("collective_") for phase in phases)),
        tuple(rows),
        remark=_left_out(left_out, statistics) if left_out else "",
    )


def heaviest(statistics: Statistics) -> list[int]:
    """The ranks that are shown: those with the most own work, in order."""
    own = {rank: times.own_seconds or 0.0 for rank, times in statistics.ranks.items()}
    return sorted(sorted(own, key=lambda rank: -own[rank])[:_RANK_ROWS])


def _left_out(count: int, statistics: Statistics) -> str:
    is_known = all(times.own_seconds is not None for times in statistics.ranks.values())
    return (
        f"... and {count} ranks with less own work" if is_known else f"... and {count} more ranks"
    )


def phase_table(statistics: Statistics) -> list[str]:
    """The phases in lines of less than 100 columns."""
    return lines_of(phase_cells(statistics))


def rank_table(statistics: Statistics) -> list[str]:
    """The ranks in such lines."""
    return lines_of(rank_cells(statistics))


def lines_of(table: Table, left: tuple[int, ...] = (0,)) -> list[str]:
    """A table as text; columns are aligned at the right, but for some."""
    rows = [table.header, *table.rows] if table.header else []
    if table.bars:
        bars = ("", *("█" * round(bar * _BAR) for bar in table.bars))
        rows = [(*row, bar) for row, bar in zip(rows, bars, strict=True)]
        left = (*left, len(table.header))
    remark = [f"  {table.remark}"] if table.remark else []
    return [*_aligned(rows, left), *remark]


def _cells(spread: Spread, alone: bool) -> tuple[str, ...]:
    if alone:  # nobody to compare it with
        return (units.seconds(spread.median),)
    return (
        units.seconds(spread.median),
        units.seconds(spread.worst),
        f"r{spread.worst_rank}",
        units.ratio(spread.skew_ratio),
    )


def _aligned(table: Sequence[Sequence[str]], left: tuple[int, ...]) -> Iterator[str]:
    rows = [[one_line(cell) for cell in row] for row in table]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield ("  " + "  ".join(cells)).rstrip()

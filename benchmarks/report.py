"""Tables in GitHub's markdown, and lines on standard error that show a long run lives."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

_BEGAN = time.monotonic()


@dataclass(frozen=True, slots=True)
class Table:
    """Figures, and how they were taken."""

    title: str
    how: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", self.how, "", _row(self.columns)]
        lines.append(_row(["---"] + ["---:"] * (len(self.columns) - 1)))
        lines.extend(_row(row) for row in self.rows)
        return "\n".join(lines) + "\n"


def progress(message: str) -> None:
    """Tell whoever waits what is being done."""
    print(f"[{time.monotonic() - _BEGAN:5.0f} s] {message}", file=sys.stderr, flush=True)


def mebibytes(size: float) -> str:
    """A size as tables show it."""
    return f"{size / 2**20:.0f} MiB"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

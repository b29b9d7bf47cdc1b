"""A comparison as text, in about 100 columns."""

import textwrap
from collections.abc import Iterator, Sequence

from traceml.printable import one_line
from traceml.report.compare.comparison import Comparison
from traceml.report.compare.figures import percent
from traceml.report.compare.gate import FAILED, PASSED
from traceml.report.compare.table import Row, rows

_WIDTH = 100
_NAME_WIDTH = 16
OUTCOMES = {PASSED: "passed", FAILED: "FAILED"}


def comparison_text(compared: Comparison) -> str:
    """The verdict, why, the table, and what it rests on."""
    lines = [headline(compared)]
    for sentence in sentences(compared):
        lines += textwrap.wrap(sentence, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines += ["", *_table(compared), ""]
    for note in notes(compared):
        lines += textwrap.wrap(note, _WIDTH, subsequent_indent="  ")
    return "".join(f"{one_line(line)}\n" for line in lines)


def headline(compared: Comparison) -> str:
    """The verdict in one line, with what is to blame."""
    found = compared.verdict
    sure = "" if found.confidence is None else f" ({found.confidence} confidence)"
    first = compared.causes[0] if compared.causes else None
    rank = "" if first is None or first.rank is None else f"rank {first.rank}"
    phase = "" if first is None else first.phase or ""
    where = ", ".join(part for part in (rank, phase) if part)
    return f"{found.state}{sure}  {where}".rstrip()


def sentences(compared: Comparison) -> Iterator[str]:
    """What happened, why, and what would tell more."""
    yield compared.verdict.summary
    for cause in compared.causes:
        yield f"{cause.summary}."
    if compared.verdict.advice is not None:
        yield f"Next: {compared.verdict.advice.summary}"


def notes(compared: Comparison) -> Iterator[str]:
    """What the verdict rests on, what else changed, and the gate."""
    yield _noise_note(compared)
    if compared.changed:
        listed = "; ".join(str(each) for each in compared.changed)
        yield f"Changed, so not all else is equal: {listed}."
    for doubt in compared.verdict.doubts:
        yield f"Note: {doubt}."
    for check in compared.checks:
        yield f"Gate: {check.what}: {OUTCOMES.get(check.outcome, 'undecided')} ({check.why})"


def _noise_note(compared: Comparison) -> str:
    rules = compared.rules
    start = f"A change counts from {rules.threshold * 100:g} % on, if it exceeds the noise."
    if compared.run_noise is None:
        return start
    source = f"learned from {len(compared.bases)} baselines"
    if len(compared.bases) == 1:
        source = "assumed: give several baselines (--base) to learn it"
    return f"{start} Noise from run to run: {percent(compared.run_noise)} ({source})."


def _table(compared: Comparison) -> Iterator[str]:
    base, candidate = (_short(name) for name in compared.names)
    header = Row("Metric", base, candidate, "Change", "Noise")
    cells = [_cells(row) for row in (header, *rows(compared))]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    for row in cells:
        line = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(line)).rstrip()


def _cells(row: Row) -> Sequence[str]:
    return (row.metric, row.base, row.candidate, row.change, row.noise, row.says)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."

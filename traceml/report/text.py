"""The summary as text: what is printed when a run ends, and kept beside its JSON."""

import textwrap
from collections.abc import Iterator

from traceml.printable import one_line
from traceml.report import facts
from traceml.report.document import Summary
from traceml.report.table import phase_table, rank_table

WIDTH = 100
_NAME_WIDTH = 45  # the title also says how the run ended


def summary_text(summary: Summary) -> str:
    """The run on one screen, at most 100 columns wide."""
    lines = [_title(summary), facts.setting(summary)]
    if summary.run.world_size is not None:
        whole = facts.whole_run(summary)
        lines += [facts.counted(summary), "", *verdict_lines(summary), "", *phase_table(whole)]
        if len(whole.ranks) > 1:
            lines += ["", *rank_table(whole)]
        lines += ["", *_figures(summary)]
    for remark in facts.remarks(summary):
        lines += _wrapped(remark, "")
    return "".join(f"{one_line(line)}\n" for line in lines)


def verdict_lines(summary: Summary) -> Iterator[str]:
    """What is to be said of the run: the primary finding, why, what next; then all others."""
    first = summary.primary_diagnosis
    yield from _wrapped(facts.headline(first), "")
    yield from _wrapped(first.summary, "  ")
    if first.action:
        yield from _wrapped(f"Next: {first.action}", "  ")
    for finding, action in facts.others(summary):
        advice = f" Next: {action}" if action else ""
        yield from _wrapped(f"Also {facts.headline(finding)}: {finding.summary}{advice}", "")


def _figures(summary: Summary) -> Iterator[str]:
    for said in facts.FIGURES:
        for line in said(summary):
            yield from _wrapped(line, "")
    yield from _wrapped(facts.telemetry(summary), "")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _title(summary: Summary) -> str:
    name = one_line(summary.run.name)
    name = name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."
    return f"TraceML  {name}  {facts.ending(summary)}"

"""The summary as markdown: for a pull request, a wiki, a job's page."""

import re
from collections.abc import Iterable, Iterator

from traceml.diagnosis.finding import title
from traceml.printable import one_line
from traceml.report import facts
from traceml.report.document import Finding, Summary
from traceml.report.table import Table, phase_cells, rank_cells

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def summary_markdown(summary: Summary) -> str:
    """The run under one heading."""
    lines = [f"## TraceML: {_safe(summary.run.name)}", "", _safe(facts.ending(summary)) + "  "]
    lines += [_safe(facts.setting(summary)) + "  "]
    if summary.run.world_size is not None:
        whole = facts.whole_run(summary)
        lines += [
            _safe(facts.counted(summary)),
            "",
            *_verdict(summary),
            *_table(phase_cells(whole)),
        ]
        if len(whole.ranks) > 1:
            lines += _table(rank_cells(whole))
        lines += [f"- {_safe(text)}" for text in _figures(summary)]
    lines += [f"- {_safe(text)}" for text in facts.remarks(summary)]
    return "\n".join(lines) + "\n"


def _verdict(summary: Summary) -> Iterator[str]:
    first = summary.primary_diagnosis
    yield f"**{_name(first)}**"
    yield from ("", _safe(first.summary))
    if first.action:
        yield from ("", f"**Next:** {_safe(first.action)}")
    yield ""
    for finding, action in facts.others(summary):
        advice = f" **Next:** {_safe(action)}" if action else ""
        yield f"- **{_name(finding)}**: {_safe(finding.summary)}{advice}"
    yield ""


def _name(finding: Finding) -> str:
    return _safe(" ".join(facts.headline(finding).split()) or title(finding.state))


def _figures(summary: Summary) -> Iterator[str]:
    for said in facts.FIGURES:
        yield from said(summary)
    yield facts.telemetry(summary)


def _table(table: Table) -> Iterator[str]:
    if not table.header:
        yield from (_safe(table.remark), "")
        return
    yield _row(table.header)
    yield _row((":--", *["--:"] * (len(table.header) - 1)))
    yield from (_row(row) for row in table.rows)
    yield from ("", _safe(table.remark), "") if table.remark else ("",)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_safe, cells))} |"


def _safe(text: str) -> str:
    """Text of others, in one line, with nothing in it that markdown would take for its own."""
    return _SPECIAL.sub(r"\\\1", " ".join(one_line(text).split()))

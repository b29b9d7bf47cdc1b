"""A comparison in GitHub's and GitLab's markdown, for a job's page or a comment."""

import re

from traceml.printable import one_line
from traceml.report.compare.comparison import Comparison
from traceml.report.compare.table import Row, rows
from traceml.report.compare.text import headline, notes, sentences

# Names in it are somebody's own words: no markup, no mentions, no links.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#!|~@&$]|:(?=//)|(?<=www)\.)")


def comparison_markdown(compared: Comparison) -> str:
    """A heading, what happened, the table, and what it rests on in small print."""
    header = Row("Metric", *compared.names, "Change", "Noise", "")
    lines = [f"### {_plain(headline(compared))}", ""]
    lines += [f"{_plain(sentence)}  " for sentence in sentences(compared)]
    lines += ["", _row(header), "| --- | ---: | ---: | ---: | ---: | --- |"]
    lines += [_row(row) for row in rows(compared)]
    lines += ["", *(f"- {_plain(note)}" for note in notes(compared))]
    return "".join(f"{line}\n" for line in lines)


def _row(row: Row) -> str:
    cells = (row.metric, row.base, row.candidate, row.change, row.noise, row.says)
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", one_line(text).strip())

"""The files that are kept of a run, each written in one go."""

import json
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from traceml.files import Folder, encoded, opened, write_in
from traceml.report.document import Summary
from traceml.report.html import summary_html
from traceml.report.markdown import summary_markdown
from traceml.report.summary import JSON_NAME, summarized
from traceml.report.text import summary_text
from traceml.report.typed import plain
from traceml.snapshot import Snapshot

TEXT_NAME = "final_summary.txt"
HTML_NAME = "final_summary.html"
WIDTH = 100  # of a line of JSON
_MANY = 20


def write_summary(snapshot: Snapshot, directory: Path | Folder) -> None:
    """Write all of them; make the folder again if somebody took it away."""
    if isinstance(directory, Path):
        directory.mkdir(parents=True, exist_ok=True)
    summary = summarized(snapshot)
    with opened(directory) as folder:
        for name, form in ((JSON_NAME, "json"), (TEXT_NAME, "text"), (HTML_NAME, "html")):
            write_in(folder, name, encoded(rendered(summary, form)))


def rendered(summary: Summary, form: str) -> str:
    """The summary in one of FORMS, with a line's end at its end."""
    return FORMS[form](summary)


def summary_json(summary: Summary) -> str:
    """The document, one thing a line where it is short enough for that."""
    return _laid_out(plain(summary), "", 0) + "\n"


FORMS = {
    "text": summary_text,
    "json": summary_json,
    "markdown": summary_markdown,
    "html": summary_html,
}


def _laid_out(value: Any, indent: str, before: int) -> str:
    """JSON in lines, `before` being what stands in front of it in the first."""
    compact = json.dumps(value)
    if before + len(compact) < WIDTH or not isinstance(value, dict | list):
        return compact
    inside = indent + "  "
    if isinstance(value, list):
        return f"[\n{inside}{_joined(_items(value, inside), inside)}\n{indent}]"
    pairs = (
        f"{json.dumps(key)}: {_laid_out(of, inside, len(inside) + len(key) + 4)}"
        for key, of in value.items()
    )
    return f"{{\n{inside}{_joined(pairs, inside)}\n{indent}}}"


def _items(values: list[Any], indent: str) -> Iterator[str]:
    """Numbers side by side; of many other things each on a line of its own."""
    if all(isinstance(value, int | float) for value in values):
        yield textwrap.fill(json.dumps(values)[1:-1], WIDTH, subsequent_indent=indent)
    elif len(values) > _MANY:
        yield from map(json.dumps, values)
    else:
        yield from (_laid_out(value, indent, len(indent)) for value in values)


def _joined(items: Iterable[str], indent: str) -> str:
    return f",\n{indent}".join(items)

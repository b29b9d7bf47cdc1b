"""From what the user names, a file or a run's folder, to a `Side`."""

from pathlib import Path
from typing import Any

from traceml.report.compare.ours import read_ours
from traceml.report.compare.peer import read_peer
from traceml.report.compare.side import Side
from traceml.report.reading import UnreadableError, load, parsed
from traceml.report.summary import JSON_NAME
from traceml.report.typed import ShapeError


def read_side(given: Path) -> Side:
    """The run that a summary or a run's folder tells of; UnreadableError says what is wrong."""
    file = _summary_of(given)
    document = load(file)
    if not _is_peers(document):
        return read_ours(parsed(document, file))
    folder = file.parent.resolve().name or "run"
    try:
        return read_peer(document, folder)
    except ShapeError as error:
        raise UnreadableError(f"{file} is no summary of traceml-ai's: {error}") from None


def _summary_of(given: Path) -> Path:
    try:
        if not given.is_dir() or (given / JSON_NAME).exists():
            return given / JSON_NAME if given.is_dir() else given
        nodes = sorted(each.parent.name for each in given.glob(f"node-*/{JSON_NAME}"))
    except (OSError, ValueError) as error:  # a name too long, or with a zero byte in it
        why = getattr(error, "strerror", None) or "that is no file's name"
        raise UnreadableError(f"cannot read {given}: {why}") from None
    if nodes:
        raise UnreadableError(
            f"{given} holds a summary for each node; name one of {', '.join(nodes)}"
        )
    raise UnreadableError(
        f"{given} is a folder without a {JSON_NAME} (of a run that was killed, "
        f"`traceml summarize {given}` makes it)"
    )


def _is_peers(document: Any) -> bool:
    """Its sections are not ours."""
    return isinstance(document, dict) and "run" not in document and "meta" in document

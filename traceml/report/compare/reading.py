"""From what the user names, a file or a run's folder, to a `Side`."""

from pathlib import Path
from typing import Any, NoReturn

from traceml.files import Folder, limits
from traceml.report.compare.ours import read_ours
from traceml.report.compare.peer import read_peer
from traceml.report.compare.side import Side
from traceml.report.reading import UnreadableError, load, load_in, parsed
from traceml.report.summary import JSON_NAME
from traceml.report.typed import ShapeError


def read_side(given: Path) -> Side:
    """The run that a summary or a run's folder tells of; UnreadableError says what is wrong."""
    file, document = _document_of(given)
    if not _is_peers(document):
        return read_ours(parsed(document, file))
    folder = file.parent.resolve().name or "run"
    try:
        return read_peer(document, folder)
    except ShapeError as error:
        raise UnreadableError(f"{file} is no summary of traceml-ai's: {error}") from None


def _document_of(given: Path) -> tuple[Path, Any]:
    """What the user names, or in a folder that he names the summary; and what it holds."""
    try:
        folder = Folder.at(given)
    except (NotADirectoryError, FileNotFoundError):
        return given, load(given)
    except (OSError, ValueError) as error:  # a name too long, or with a zero byte in it
        why = getattr(error, "strerror", None) or "that is no file's name"
        raise UnreadableError(f"cannot read {given}: {why}") from None
    with folder:
        if folder.look(JSON_NAME) is None:
            _explain(given, folder)
        return given / JSON_NAME, load_in(folder)


def _explain(given: Path, folder: Folder) -> NoReturn:
    """Say what is there instead of a summary."""
    nodes = folder.folders("node-", lambda node: node.look(JSON_NAME) is not None)
    if nodes:
        shown = ", ".join(nodes[: limits.NAMES_SHOWN])
        raise UnreadableError(f"{given} holds a summary for each node; name one of {shown}")
    raise UnreadableError(
        f"{given} is a folder without a {JSON_NAME} (of a run that was killed, "
        f"`traceml summarize {given}` makes it)"
    )


def _is_peers(document: Any) -> bool:
    """Its sections are not ours."""
    return isinstance(document, dict) and "run" not in document and "meta" in document

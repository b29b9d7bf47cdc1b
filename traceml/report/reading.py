"""A summary that was written before, read again: whoever wrote it, and whatever became of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from traceml.files import (
    Folder,
    JsonError,
    NotRegularError,
    TooLargeError,
    limits,
    parse_json,
    read_in,
    read_named,
)
from traceml.report.document import SCHEMA_VERSION, Summary
from traceml.report.summary import JSON_NAME
from traceml.report.typed import ShapeError, read


class UnreadableError(Exception):
    """It can't be used; the message says why, in one line."""


def read_summary(file: Path) -> Summary:
    """The summary in the file that the user names."""
    return parsed(load(file), file)


def read_summary_in(folder: Folder) -> Summary:
    """The summary in a run's folder."""
    return parsed(load_in(folder), folder.path / JSON_NAME)


def parsed(document: Any, file: Path) -> Summary:
    """The summary that such a document is."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise UnreadableError(f"{file} is no summary of TraceML's: it has no schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise UnreadableError(
            f"{file} is of schema version {version!r:.20}; this TraceML reads {SCHEMA_VERSION}"
        )
    try:
        summary: Summary = read(Summary, document)
    except ShapeError as error:
        raise UnreadableError(f"{file} is no summary of TraceML's: {error}") from None
    return summary


def load(file: Path) -> Any:
    """What the JSON says in the file that the user names."""
    return _loaded(file, lambda: read_named(file, limits.SUMMARY_BYTES))


def load_in(folder: Folder) -> Any:
    """What the JSON of the summary in a run's folder says."""
    return _loaded(
        folder.path / JSON_NAME, lambda: read_in(folder, JSON_NAME, limits.SUMMARY_BYTES)
    )


def _loaded(file: Path, read: Callable[[], bytes]) -> Any:
    try:
        return parse_json(read(), limits.SUMMARY_VALUES)
    except FileNotFoundError:
        raise UnreadableError(f"no such file or folder: {file}") from None
    except NotRegularError:
        raise UnreadableError(f"{file} is no file") from None
    except TooLargeError:
        large = f"{file} is larger than {limits.SUMMARY_BYTES // 2**20} MiB, so no summary"
        raise UnreadableError(large) from None
    except OSError as error:
        raise UnreadableError(f"cannot read {file}: {error.strerror or error}") from None
    except JsonError as error:
        raise UnreadableError(f"{file} {error}") from None
    except ValueError as error:  # a name with a zero in it
        raise UnreadableError(f"{file} cannot be read: {error}") from None

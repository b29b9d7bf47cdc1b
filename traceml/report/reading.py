"""A summary that was written before, read again: whoever wrote it, and whatever became of it."""

import json
from pathlib import Path
from typing import Any, NoReturn

from traceml.report.document import SCHEMA_VERSION, Summary
from traceml.report.typed import ShapeError, read

MAX_BYTES = 64 * 2**20  # hundreds of times the largest there is


class UnreadableError(Exception):
    """It can't be used; the message says why, in one line."""


def read_summary(file: Path) -> Summary:
    """The summary in this file."""
    return parsed(load(file), file)


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
    """What the JSON in this file says."""
    try:
        return json.loads(_contents(file), parse_constant=_refuse)
    except OSError as error:
        raise UnreadableError(f"cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnreadableError(f"{file} is no text, so no JSON") from None
    except RecursionError:
        raise UnreadableError(f"{file} is nested too deeply to be a summary") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UnreadableError(f"{file} is no JSON: {error.msg}, {where}") from None
    except ValueError as error:  # NaN, a number of thousands of digits, a name with a zero in it
        raise UnreadableError(f"{file} cannot be read: {error}") from None


def _contents(file: Path) -> str:
    if not file.exists():
        raise UnreadableError(f"no such file or folder: {file}")
    if not file.is_file():
        raise UnreadableError(f"{file} is no file")
    if file.stat().st_size > MAX_BYTES:
        raise UnreadableError(f"{file} is larger than {MAX_BYTES // 2**20} MiB, so no summary")
    contents = file.read_text(encoding="utf-8-sig")
    if not contents.strip():
        raise UnreadableError(f"{file} is empty")
    return contents


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it holds {constant}, which is no number in JSON")

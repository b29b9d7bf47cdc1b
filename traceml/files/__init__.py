"""The only way in which TraceML writes files, and reads those of a run's folder.

A run's folder may come from a stranger: whatever lies in it is reached through the folder's
descriptor, and no link in it is followed. Nothing of traceml may be imported here.
"""

from traceml.files.folder import Folder, LinkError, TooManyError, is_shortage, opened
from traceml.files.parsing import JsonError, parse_json
from traceml.files.reading import NotRegularError, TooLargeError, open_in, read_in, read_named
from traceml.files.writing import (
    append_to,
    create,
    encoded,
    is_part,
    replacing,
    write_atomically,
    write_in,
)

__all__ = [
    "Folder",
    "JsonError",
    "LinkError",
    "NotRegularError",
    "TooLargeError",
    "TooManyError",
    "append_to",
    "create",
    "encoded",
    "is_part",
    "is_shortage",
    "open_in",
    "opened",
    "parse_json",
    "read_in",
    "read_named",
    "replacing",
    "write_atomically",
    "write_in",
]

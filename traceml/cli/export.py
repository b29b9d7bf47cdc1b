"""`traceml export`: the steps of a run for other tools, from its journal."""

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from traceml.cli import rundir
from traceml.cli.errors import CANNOT_CREATE, UNREADABLE, CommandError
from traceml.cli.prepare import say
from traceml.files import Folder, limits, replacing

FORMATS = ("perfetto", "csv")

_EPILOG = """\
perfetto: a trace for https://ui.perfetto.dev or chrome://tracing, a track a rank, with a
          slice for each step and slices for its phases within.
csv:      a row for each rank and step; times in seconds, memory in bytes.

Only steps that every rank of the node has reported are there, and of those only what the
journal still holds: it forgets the oldest when it is full (--journal-max-mb).

examples:
  traceml export logs/baseline --to perfetto --last 500 --output trace.json
  traceml export logs/baseline --to csv > steps.csv
"""


def add_parser(commands: Any) -> None:
    """Add `export` to the command line."""
    parser = commands.add_parser(
        "export",
        help="give the steps of a run to other tools: a Perfetto trace, or CSV",
        description="Write the completed steps that a run's journal holds.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="a folder below logs/")
    parser.add_argument("--to", choices=FORMATS, required=True, help="what to write")
    parser.add_argument("--last", metavar="N", type=_number, help="only the last N steps")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="where to (default: standard output)"
    )
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Write the steps, as they are read."""
    from traceml.report.perfetto import write_trace
    from traceml.report.rows import write_csv
    from traceml.sidecar.recovery import FOLDER
    from traceml.sidecar.retained import Retained, retained_rows

    journal = _with_journal(parsed.run_dir) / FOLDER
    retained = Retained()
    rows = _not_none(retained_rows(journal, retained, parsed.last), parsed.run_dir)
    with _opened(parsed.output) as into:
        if parsed.to == "csv":
            write_csv(rows, into)
        else:
            write_trace(rows, parsed.run_dir.resolve().name, into)
    for problem in retained.problems:
        say(f"the journal could not be read whole: {problem}")
    if retained.unknown:
        say(f"{retained.unknown} batches are of processes of which nothing is known any more")
    return 0


def _with_journal(run_dir: Path) -> Path:
    from traceml.sidecar.recovery import FOLDER

    with rundir.named(run_dir) as folder:
        if folder.has_folder(FOLDER):
            return run_dir
        nodes = folder.folders("node-", lambda node: node.has_folder(FOLDER))
    if nodes:
        shown = ", ".join(nodes[: limits.NAMES_SHOWN])
        raise CommandError(f"{run_dir} holds a journal for each node; name one of {shown}")
    raise CommandError(f"no journal of a run in {run_dir}", UNREADABLE)


def _not_none(rows: Iterator[Any], run_dir: Path) -> Iterator[Any]:
    """The rows; an error before anything is written if there is not one."""
    first = next(rows, None)
    if first is None:
        raise CommandError(f"no completed step in the journal of {run_dir}", UNREADABLE)
    return chain([first], rows)


@contextmanager
def _opened(file: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there when it is whole."""
    if file is None:
        yield sys.stdout
        return
    try:
        with (
            Folder.at(file.parent) as folder,
            replacing(folder, file.name) as whole,
            io.TextIOWrapper(whole, "utf-8", newline="") as into,
        ):
            yield into
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}", CANNOT_CREATE) from None


def _number(value: str) -> int:
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise argparse.ArgumentTypeError(f"{value!r} must be a number of steps, 1 or more")

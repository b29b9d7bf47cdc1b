"""`traceml summarize`: the summary of a run, made anew from its journal, or as it was written."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml.cli import rundir
from traceml.cli.errors import UNREADABLE, CommandError
from traceml.cli.out import out
from traceml.cli.prepare import say

if TYPE_CHECKING:
    from traceml.report.document import Summary
    from traceml.snapshot import Snapshot

FORMATS = ("text", "json", "markdown", "html")
_ONE_AT_A_TIME = ("json", "html")  # two of them in a row are neither

_EPILOG = """\
A run that is still going on, that has ended, or whose sidecar and launcher were killed:
its journal holds every step that was acknowledged. The summary is written into the run's
folder again, says how much of the run it covers, and does not replace one that tells of
more. A summary that is named itself, or a folder without a journal, is printed as it is.

examples:
  traceml summarize logs/baseline
  traceml summarize logs/baseline/final_summary.json --format markdown
  traceml summarize logs/baseline --format html > baseline.html
"""


def add_parser(commands: Any) -> None:
    """Add `summarize` to the command line."""
    parser = commands.add_parser(
        "summarize",
        help="make a run's summary anew from its journal, or print one that is there",
        description="Make a run's final_summary.* anew from its journal and print it, or print "
        "a summary that is there.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "given", metavar="RUN_DIR|SUMMARY", type=Path,
        help="a folder below logs/, or a final_summary.json",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="how to print it (default: text)"
    )
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print the run's summary, or on several nodes each node's."""
    from traceml.report.writing import rendered

    folders = _folders(parsed.given)
    if len(folders) > 1 and parsed.format in _ONE_AT_A_TIME:
        names = ", ".join(folder.name for folder in folders)
        raise CommandError(f"{parsed.given} holds a summary for each node; name one of {names}")
    for summary in _summaries(parsed.given, folders):
        out(rendered(summary, parsed.format) + "\n")
    return 0


def _folders(given: Path) -> list[Path]:
    """The run's folder, or those of its nodes; none for a file."""
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.recovery import FOLDER

    if not rundir.is_folder(given):
        return []
    found = [given, *sorted(given.glob("node-*"))]
    found = [each for each in found if (each / FOLDER).is_dir() or (each / JSON_NAME).exists()]
    if not found:
        raise CommandError(f"no journal of a run in {given}, and no {JSON_NAME}", UNREADABLE)
    return found


def _summaries(given: Path, folders: list[Path]) -> "Iterator[Summary]":
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.recovery import FOLDER

    if not folders:
        yield _written(given)
    for folder in folders:
        if (folder / FOLDER).is_dir():
            yield _made_anew(folder)
        else:
            yield _written(folder / JSON_NAME)


def _written(file: Path) -> "Summary":
    from traceml.report.reading import UnreadableError, read_summary

    try:
        return read_summary(file)
    except UnreadableError as error:
        raise CommandError(str(error), UNREADABLE) from None


def _made_anew(directory: Path) -> "Summary":
    from traceml.report.summary import JSON_NAME, summarized
    from traceml.sidecar.rebuild import rebuild

    snapshot = rebuild(directory)
    if snapshot is not None:
        _write(snapshot, directory)
        return summarized(snapshot)
    nothing = f"nothing in the journal of {directory} can be read"
    if not (directory / JSON_NAME).exists():
        raise CommandError(nothing, UNREADABLE)
    say(f"{nothing}; this is {JSON_NAME} as it was written")
    return _written(directory / JSON_NAME)


def _write(snapshot: "Snapshot", directory: Path) -> None:
    """Put it into the folder, unless what is there tells of more."""
    from traceml.report.summary import JSON_NAME
    from traceml.report.writing import write_summary

    told = _steps_told(directory / JSON_NAME)
    if told > snapshot.steps.completed:
        say(f"final_summary.* in {directory} are left as they are: they tell of {told} steps")
        return
    try:
        write_summary(snapshot, directory)
    except OSError as error:  # somebody else's run, perhaps: it can be shown all the same
        say(f"cannot write the summary into {directory}: {error.strerror}")


def _steps_told(file: Path) -> int:
    """How many steps the summary that is there already tells of."""
    from traceml.report.reading import UnreadableError, read_summary

    try:
        return read_summary(file).step_time.steps.completed
    except UnreadableError:
        return 0

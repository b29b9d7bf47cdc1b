"""`traceml summarize`: the summary of a run, made anew from its journal, or as it was written."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml.cli import rundir
from traceml.cli.errors import CANNOT_CREATE, UNREADABLE, CommandError
from traceml.cli.out import out
from traceml.cli.prepare import say
from traceml.files import Folder, limits, write_atomically

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
Into a folder that belongs to another user nothing is written.

examples:
  traceml summarize logs/baseline
  traceml summarize logs/baseline/final_summary.json --format markdown
  traceml summarize logs/baseline --format html --output baseline.html
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
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="where to (default: standard output)"
    )
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print the run's summary, or on several nodes each node's."""
    from traceml.report.writing import rendered

    texts = (f"{rendered(each, parsed.format)}\n" for each in _summaries(parsed))
    if parsed.output is not None:
        _keep("".join(texts), parsed.output)
    else:
        for text in texts:
            out(text)
    return 0


def _keep(text: str, file: Path) -> None:
    try:
        write_atomically(file, text)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}", CANNOT_CREATE) from None


def _summaries(parsed: argparse.Namespace) -> "Iterator[Summary]":
    """Of the run, or of each of its nodes; of the file that is named."""
    given: Path = parsed.given
    if not rundir.is_folder(given):
        yield _written(given)
        return
    with rundir.named(given) as run:
        names = _parts(run)
        if len(names) > 1 and parsed.format in _ONE_AT_A_TIME:
            shown = ", ".join((run.path / name).name for name in names[: limits.NAMES_SHOWN])
            raise CommandError(f"{given} holds a summary for each node; name one of {shown}")
        for name in names:
            yield _of_part(run, name)


def _parts(run: Folder) -> list[str]:
    """The run's folder, and those of its nodes."""
    from traceml.report.summary import JSON_NAME

    found = (["."] if _is_run(run) else []) + run.folders("node-", _is_run)
    if not found:
        raise CommandError(f"no journal of a run in {run.path}, and no {JSON_NAME}", UNREADABLE)
    return found


def _is_run(folder: Folder) -> bool:
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.recovery import FOLDER

    return folder.has_folder(FOLDER) or folder.look(JSON_NAME) is not None


def _of_part(run: Folder, name: str) -> "Summary":
    from traceml.sidecar.recovery import FOLDER

    try:
        with run.inside(name) as folder:
            return _made_anew(folder) if folder.has_folder(FOLDER) else _written(folder)
    except OSError as error:  # it was there a moment ago
        raise CommandError(f"cannot read {run.path / name}: {error.strerror}", UNREADABLE) from None


def _written(place: Path | Folder) -> "Summary":
    """The file that is named, or what a run's folder holds."""
    from traceml.report.reading import UnreadableError, read_summary, read_summary_in

    try:
        return read_summary(place) if isinstance(place, Path) else read_summary_in(place)
    except UnreadableError as error:
        raise CommandError(str(error), UNREADABLE) from None


def _made_anew(folder: Folder) -> "Summary":
    from traceml.report.summary import JSON_NAME, summarized
    from traceml.sidecar.rebuild import rebuild

    snapshot = rebuild(folder)
    if snapshot is not None:
        _write(snapshot, folder)
        return summarized(snapshot)
    nothing = f"nothing in the journal of {folder.path} can be read"
    if folder.look(JSON_NAME) is None:
        raise CommandError(nothing, UNREADABLE)
    say(f"{nothing}; this is {JSON_NAME} as it was written")
    return _written(folder)


def _write(snapshot: "Snapshot", folder: Folder) -> None:
    """Put it into the folder, unless that is a stranger's or what is there tells of more."""
    from traceml.report.writing import write_summary

    if not folder.is_own:
        say(f"{folder.path} belongs to another user: nothing is written into it (see --output)")
        return
    told = _steps_told(folder)
    if told > snapshot.steps.completed:
        say(f"final_summary.* in {folder.path} are left as they are: they tell of {told} steps")
        return
    try:
        write_summary(snapshot, folder)
    except OSError as error:  # a disk that is full, perhaps: it can be shown all the same
        say(f"cannot write the summary into {folder.path}: {error.strerror}")


def _steps_told(folder: Folder) -> int:
    """How many steps the summary that is there already tells of."""
    from traceml.report.reading import UnreadableError, read_summary_in

    try:
        return read_summary_in(folder).step_time.steps.completed
    except UnreadableError:
        return 0

"""`traceml summarize`: the summary of a run, from its journal, whatever became of the run."""

import argparse
import json
from pathlib import Path
from typing import Any

from traceml.cli.errors import CANNOT_CREATE, NO_INPUT, CommandError
from traceml.cli.prepare import say

_EPILOG = """\
A run that is still going on, that has ended, or whose sidecar and launcher were killed:
its journal holds every step that was acknowledged. The summary says how much of the run
it covers, and does not replace one that tells of more.

example:
  traceml summarize logs/baseline
"""


def add_parser(commands: Any) -> None:
    """Add `summarize` to the command line."""
    parser = commands.add_parser(
        "summarize",
        help="make a run's summary anew from its journal",
        description="Write final_summary.json and .txt into a run's folder, and print the text.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="a folder below logs/")
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Summarize the run, or on several nodes each node's part of it."""
    for directory in _with_journals(parsed.run_dir):
        _summarize(directory)
    return 0


def _with_journals(run_dir: Path) -> list[Path]:
    from traceml.sidecar.recovery import FOLDER

    if not run_dir.is_dir():
        raise CommandError(f"no such folder: {run_dir}", NO_INPUT)
    found = [run_dir, *sorted(run_dir.glob("node-*"))]
    found = [directory for directory in found if (directory / FOLDER).is_dir()]
    if not found:
        raise CommandError(f"no journal of a run in {run_dir}", NO_INPUT)
    return found


def _summarize(directory: Path) -> None:
    from traceml.report.summary import JSON_NAME, write_summary
    from traceml.report.text import summary_text
    from traceml.sidecar.rebuild import rebuild

    snapshot = rebuild(directory)
    if snapshot is None:
        raise CommandError(f"nothing in the journal of {directory} can be read", NO_INPUT)
    print(summary_text(snapshot))
    told = _steps_told(directory / JSON_NAME)
    if told > snapshot.steps.completed:
        say(f"final_summary.* in {directory} are left as they are: they tell of {told} steps")
        return
    try:
        write_summary(snapshot, directory)
    except OSError as error:
        raise CommandError(
            f"cannot write the summary into {directory}: {error.strerror}", CANNOT_CREATE
        ) from None


def _steps_told(summary: Path) -> int:
    """How many steps the summary that is there already tells of."""
    try:
        document = json.loads(summary.read_text(encoding="utf-8"))
        return int(document["step_time"]["steps"]["completed"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0

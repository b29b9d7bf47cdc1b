"""`traceml list`: the runs in a folder, and how each of them went."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceml import units
from traceml.cli import rundir, settings
from traceml.cli.errors import UNREADABLE, CommandError
from traceml.cli.out import out
from traceml.cli.prepare import say

_LOGS = tuple(each for each in settings.SHARED if each.name == "logs_dir")

_EPILOG = """\
The verdict and figures are those of each run's final_summary.json. A run without one is
going on, or was killed together with its launcher: `traceml summarize` makes it.

examples:
  traceml list
  traceml list /scratch/logs
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One run, and when it began."""

    began_at: str
    cells: tuple[str, ...]


def add_parser(commands: Any) -> None:
    """Add `list` to the command line."""
    parser = commands.add_parser(
        "list",
        help="show the runs in a folder, with verdict, steps and duration",
        description="Show the runs in a folder, the latest last.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "logs_dir", nargs="?", metavar="DIR", help="where the run folders are (default: logs)"
    )
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print one line a run."""
    from traceml.report.table import Table, lines_of

    logs: Path = settings.resolve(parsed, _LOGS)["logs_dir"]
    try:
        rows = sorted(_rows(logs), key=lambda row: (row.began_at, row.cells))
    except OSError as error:
        raise CommandError(f"cannot read {logs}: {error.strerror}", UNREADABLE) from None
    if not rows:
        say(f"no runs in {logs}")
        return 0
    header = ("run", "status", "steps", "duration", "started (UTC)", "verdict")
    table = Table(header, tuple(row.cells for row in rows))
    out("".join(f"{line}\n" for line in lines_of(table, left=(0, 1, 5))))
    return 0


def _rows(logs: Path) -> Iterator[Row]:
    for folder in sorted(_runs(logs)):
        name = str(folder.relative_to(logs)) if folder != logs else folder.resolve().name
        yield _row(folder, name)


def _runs(logs: Path) -> Iterator[Path]:
    """Every folder of a run: this one, those in it, those of their nodes."""
    if not rundir.is_folder(logs):
        raise CommandError(f"no such folder: {logs}", UNREADABLE)
    inside = [folder for folder in logs.iterdir() if folder.is_dir()]
    nodes = [node for folder in inside for node in folder.glob("node-*")]
    yield from (folder for folder in (logs, *inside, *nodes) if _is_run(folder))


def _is_run(folder: Path) -> bool:
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.recovery import FOLDER

    return (folder / JSON_NAME).is_file() or (folder / FOLDER).is_dir()


def _row(folder: Path, name: str) -> Row:
    from traceml.report import facts
    from traceml.report.reading import UnreadableError, read_summary
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.journal import is_written
    from traceml.sidecar.recovery import FOLDER

    if is_written(folder / FOLDER):
        return Row("~", (name, "running", "-", "-", "-", "-"))  # behind all that have ended
    if not (folder / JSON_NAME).is_file():
        return Row("", (name, "no summary", "-", "-", "-", f"see traceml summarize {folder}"))
    try:
        summary = read_summary(folder / JSON_NAME)
    except UnreadableError as error:
        reason = str(error).removeprefix(f"{folder / JSON_NAME} ")
        return Row("", (name, "unreadable", "-", "-", "-", reason))
    run = summary.run
    return Row(
        run.started_at,
        (
            name,
            run.status,
            str(summary.step_time.steps.completed),
            units.duration(run.duration_seconds),
            facts.moment(run.started_at).removesuffix(" UTC"),
            facts.headline(summary.primary_diagnosis),
        ),
    )

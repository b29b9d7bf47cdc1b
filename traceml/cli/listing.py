"""`traceml list`: the runs in a folder, and how each of them went."""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml import units
from traceml.cli import rundir, settings
from traceml.cli.errors import UNREADABLE, CommandError
from traceml.cli.out import out
from traceml.cli.prepare import say
from traceml.files import Folder, limits

if TYPE_CHECKING:
    from traceml.report.document import Summary

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
    looked = _Looked()
    try:
        rows = sorted(_rows(logs, looked), key=lambda row: (row.began_at, row.cells))
    except OSError as error:
        raise CommandError(f"cannot read {logs}: {error.strerror}", UNREADABLE) from None
    if looked.is_full:
        say(f"{logs} holds more than {limits.RUNS} runs: the others are not shown")
    if not rows:
        say(f"no runs in {logs}")
        return 0
    header = ("run", "status", "steps", "duration", "started (UTC)", "verdict")
    table = Table(header, tuple(row.cells for row in rows))
    out("".join(f"{line}\n" for line in lines_of(table, left=(0, 1, 5))))
    return 0


@dataclass(slots=True)
class _Looked:
    """How much was looked at so far: what is listed may be anybody's, and without end."""

    runs: int = 0
    summary_bytes: int = 0
    is_full: bool = False

    def has_room(self) -> bool:
        """Whether one run more may be shown."""
        self.runs += 1
        self.is_full = self.runs > limits.RUNS
        return not self.is_full


def _rows(logs: Path, looked: _Looked) -> Iterator[Row]:
    """Every folder of a run: this one, those in it, those of their nodes; links are passed over."""
    with rundir.named(logs) as folder:
        if _is_run(folder) and looked.has_room():
            yield _row(folder, logs.resolve().name, looked)
        for name in filter(folder.has_folder, folder.names()):
            if looked.is_full:
                return
            with suppress(OSError), folder.inside(name) as run:  # it may be gone, or not for us
                yield from _run_rows(run, name, looked)


def _run_rows(run: Folder, name: str, looked: _Looked) -> Iterator[Row]:
    if _is_run(run) and looked.has_room():
        yield _row(run, name, looked)
    for node in run.folders("node-", _is_run):
        if not looked.has_room():
            return
        with suppress(OSError), run.inside(node) as part:
            yield _row(part, f"{name}/{node}", looked)


def _is_run(folder: Folder) -> bool:
    from traceml.report.summary import JSON_NAME
    from traceml.sidecar.recovery import FOLDER

    return folder.has_file(JSON_NAME) or folder.has_folder(FOLDER)


def _row(folder: Folder, name: str, looked: _Looked) -> Row:
    from traceml.report.reading import UnreadableError, read_summary_in
    from traceml.report.summary import JSON_NAME

    if _is_running(folder):
        return Row("~", (name, "running", "-", "-", "-", "-"))  # behind all that have ended
    found = folder.look(JSON_NAME)
    if found is None or not folder.has_file(JSON_NAME):
        return _without(name, "no summary", f"see traceml summarize {folder.path}")
    looked.summary_bytes += found.st_size
    if looked.summary_bytes > limits.LISTED_BYTES:
        most = limits.LISTED_BYTES // limits.MIB
        return _without(name, "not read", f"the summaries before it are {most} MiB already")
    try:
        return _told(name, read_summary_in(folder))
    except UnreadableError as error:
        reason = str(error).removeprefix(f"{folder.path / JSON_NAME} ")
        return _without(name, "unreadable", reason)


def _without(name: str, status: str, reason: str) -> Row:
    return Row("", (name, status, "-", "-", "-", reason))


def _told(name: str, summary: "Summary") -> Row:
    from traceml.report import facts

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


def _is_running(folder: Folder) -> bool:
    from traceml.sidecar.journal import is_written
    from traceml.sidecar.recovery import FOLDER

    try:
        with folder.inside(FOLDER) as journal:
            return is_written(journal)
    except OSError:
        return False

"""Record, judge, show: what `python -m benchmarks accuracy` does."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy import plan, scores
from benchmarks.accuracy.judging import Outcome, judge
from benchmarks.accuracy.recorded import recordings
from benchmarks.accuracy.recording import record
from benchmarks.report import Table, progress


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and where to keep it."""

    quick: bool = False
    only: str | None = None  # a regular expression for names of runs
    keep: Path | None = None  # record here; what is there already is not run again
    kept: Path | None = None  # judge what is here, and run nothing


def tables(options: Options) -> Iterator[Table]:
    """Everything that was found, against what was planted."""
    yield from scores.tables(outcomes(options))


def outcomes(options: Options) -> list[Outcome]:
    """Run what is to be run, and judge all of it."""
    with _folder(options) as folder:
        if options.kept is None:
            _record(options, folder)
        return _judge(options, folder)


def _record(options: Options, folder: Path) -> None:
    schedules = plan.chosen(plan.quick() if options.quick else plan.full(), options.only)
    for number, schedule in enumerate(schedules, start=1):
        if (folder / schedule.name).exists():
            continue
        progress(f"accuracy: {number} of {len(schedules)}: {schedule.name}")
        record(schedule, folder)


def _judge(options: Options, folder: Path) -> list[Outcome]:
    kept = {each.folder.name: each for each in recordings(folder)}
    schedules = plan.chosen((each.schedule for each in kept.values()), options.only)
    found = []
    with ProcessPoolExecutor() as processes:
        for outcomes in processes.map(judge, (kept[schedule.name] for schedule in schedules)):
            progress(f"accuracy: {outcomes[0].run} is judged")
            found += outcomes
    return found


@contextmanager
def _folder(options: Options) -> Iterator[Path]:
    given = options.kept or options.keep
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)

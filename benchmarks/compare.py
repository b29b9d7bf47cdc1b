"""How often `traceml compare` is right: equal runs, and runs with a known delay in one phase.

In each round three baselines are run in turn with the candidates. Equal runs come one after the
other with nothing beside them, because they tell the noise; of runs with a delay that sleep, two
rounds go on at a time, as neither takes the other's core.
"""

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.schedule import COMPUTE, SLEEP
from benchmarks.processes import SCRIPTS, run
from benchmarks.report import Table, progress
from benchmarks.spread import spread
from traceml.report.compare.comparison import Comparison, compare
from traceml.report.compare.reading import read_side
from traceml.report.compare.side import Side
from traceml.report.compare.verdict import EQUIVALENT, INCONCLUSIVE, REGRESSION

_ROUNDS, _QUICK_ROUNDS = 20, 2
_STEPS, _QUICK_STEPS = 200, 60
_BASELINES = 3
_WORK_SECONDS = 0.020  # what a healthy step's work on one rank is counted as
_WORKED = ("dataloader", "forward", "backward", "optimizer")

# Where work can be added, and the phase in which it is seen.
_PHASES = {
    "input": "dataloader",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
_EXCHANGE = {"exchange": "collective_wait"}
_SIZES = (0.25, 0.10)


@dataclass(frozen=True, slots=True)
class Planted:
    """What is different in a candidate."""

    place: str = ""
    ratio: float = 0.0  # of a step

    @property
    def name(self) -> str:
        return f"{self.place}-{self.ratio:.2f}" if self.place else "same"


_NOTHING = (Planted(),)


@dataclass(frozen=True, slots=True)
class Setting:
    """Runs that are compared with each other."""

    work: str
    ranks: int
    planted: tuple[Planted, ...]

    @property
    def is_of_equals(self) -> bool:
        return self.planted == _NOTHING

    @property
    def name(self) -> str:
        return f"{self.ranks}-{self.work}{'-same' if self.is_of_equals else ''}"

    @property
    def at_a_time(self) -> int:
        """Rounds that do not disturb each other."""
        return 2 if self.work == SLEEP and not self.is_of_equals else 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """A candidate, and what was said of it."""

    setting: Setting
    planted: Planted
    compared: Comparison

    @property
    def names_the_phase(self) -> bool:
        phase = {**_PHASES, **_EXCHANGE}.get(self.planted.place)
        causes = self.compared.causes
        return bool(causes) and causes[0].phase == phase


def tables(quick: bool, keep: Path | None = None, only: str | None = None) -> Iterator[Table]:
    """What was said, by what was planted; what was not as it should be; and the noise."""
    settings = [each for each in _settings(quick) if re.search(only or "", each.name)]
    if not settings:
        raise SystemExit(f"compare: no setting is called {only}")
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory() as name:
        outcomes = [
            outcome
            for setting in settings
            for outcome in _outcomes(setting, Path(name).resolve(), quick)
        ]
    yield _said(outcomes, quick)
    yield _noise(outcomes)
    yield _amiss(outcomes)


def _settings(quick: bool) -> list[Setting]:
    if quick:
        delayed = (Planted("input", 0.25), Planted("forward", 0.25))
        return [Setting(SLEEP, 1, _NOTHING), Setting(SLEEP, 1, delayed)]
    return [
        Setting(work, ranks, planted)
        for work, ranks, places in (
            (SLEEP, 1, tuple(_PHASES)),
            (SLEEP, 2, tuple(_EXCHANGE)),
            (COMPUTE, 1, ("forward",)),
        )
        for planted in (_NOTHING, tuple(Planted(p, size) for size in _SIZES for p in places))
    ]


def _outcomes(setting: Setting, folder: Path, quick: bool) -> Iterator[Outcome]:
    rounds = _QUICK_ROUNDS if quick else _ROUNDS

    def work(number: int) -> list[Outcome]:
        progress(f"compare: {setting.name}: round {number + 1} of {rounds}")
        return _round(setting, folder / f"{setting.name}-{number:02}", quick)

    with ThreadPoolExecutor(setting.at_a_time) as pool:
        for outcomes in pool.map(work, range(rounds)):
            yield from outcomes


def _round(setting: Setting, folder: Path, quick: bool) -> list[Outcome]:
    """All candidates in three parts, a baseline before each."""
    folder.mkdir(parents=True, exist_ok=True)
    bases: list[Side] = []
    candidates: dict[Planted, Side] = {}
    for part in range(_BASELINES):
        bases.append(_run(setting, Planted(), folder / f"base-{part}", 0.0, quick))
        for planted in setting.planted[part::_BASELINES]:
            extra = planted.ratio * _step_seconds(setting, bases[0])
            candidates[planted] = _run(setting, planted, folder / planted.name, extra, quick)
    return [
        Outcome(setting, planted, compare(bases, candidate))
        for planted, candidate in candidates.items()
    ]


def _step_seconds(setting: Setting, base: Side) -> float:
    """How long a step is, in seconds as the script counts them."""
    if base.step is None:
        raise SystemExit("compare: a baseline has no step")
    if setting.work == SLEEP:
        return base.step.value
    worked = sum(base.phases[phase].value for phase in _WORKED)
    return base.step.value / worked * _WORK_SECONDS


def _run(setting: Setting, planted: Planted, folder: Path, extra: float, quick: bool) -> Side:
    """A run to its end, unless it is there already."""
    output = folder.with_name(f"{folder.name}.txt")
    if not output.exists():
        shutil.rmtree(folder, ignore_errors=True)  # one that was cut off
        part = output.with_suffix(".part")
        run(_command(setting, planted, folder, extra, quick), part, "compare")
        part.replace(output)
    return read_side(folder)


def _command(
    setting: Setting, planted: Planted, folder: Path, extra: float, quick: bool
) -> Sequence[str]:
    flags = ["--logs-dir", str(folder.parent), "--run-name", folder.name, "--linger", "0"]
    flags += ["--metrics-port", "0", "--nproc-per-node", str(setting.ranks)]
    steps = _QUICK_STEPS if quick else _STEPS
    told = ["--steps", str(steps), "--work", setting.work]
    if planted.place:
        told += ["--place", planted.place, "--extra-ms", f"{extra * 1e3:.4f}"]
    script = str(SCRIPTS / "planted.py")
    return [sys.executable, "-m", "traceml", "run", *flags, script, "--", *told]


def _said(outcomes: Sequence[Outcome], quick: bool) -> Table:
    columns = ("work", "planted", "runs", *(s.lower() for s in _SHOWN), "right phase", "goal")
    groups: dict[tuple[Setting, Planted], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.setting, outcome.planted), []).append(outcome)
    rows = [
        _row(setting, planted, groups[setting, planted])
        for setting in dict.fromkeys(setting for setting, _ in groups)
        for planted in setting.planted
    ]
    steps = _QUICK_STEPS if quick else _STEPS
    how = (
        f"Runs of {steps} steps, each against {_BASELINES} baselines that were run in turn with "
        "it. Work is a sleep, or a fixed number of matrix products; `same` is the same run again; "
        "a delay is a share of the whole step, added to one phase of every step."
    )
    return Table("What was said", how, columns, rows)


_SHOWN = (REGRESSION, EQUIVALENT, INCONCLUSIVE, "other")


def _row(setting: Setting, planted: Planted, outcomes: Sequence[Outcome]) -> list[str]:
    said = Counter(outcome.compared.verdict.state for outcome in outcomes)
    counts = [said[state] for state in _SHOWN[:-1]]
    right = sum(
        outcome.names_the_phase and outcome.compared.verdict.state == REGRESSION
        for outcome in outcomes
    )
    return [
        f"{setting.work}, {setting.ranks} process{'es' if setting.ranks > 1 else ''}",
        f"+{planted.ratio:.0%} in {planted.place}" if planted.place else "same",
        str(len(outcomes)),
        *(str(count) for count in counts),
        str(len(outcomes) - sum(counts)),
        str(right) if planted.place else "-",
        _goal(planted),
    ]


def _goal(planted: Planted) -> str:
    if not planted.place:
        return "no regression, 15 of 20 equivalent"
    if planted.ratio == _SIZES[0]:
        return "19 of 20 with the right phase"
    return "10 of 20 regression, at most 1 equivalent"


def _noise(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for setting in dict.fromkeys(outcome.setting for outcome in outcomes):
        same = [each.compared for each in outcomes if each.setting == setting]
        runs = spread([each.run_noise or 0.0 for each in same])
        steps = [each.effects.step for each in same if each.effects.step is not None]
        noise = spread([step.relative(step.noise) for step in steps])
        rows.append([setting.name, runs.show(100, 2), noise.show(100)])
    how = "In per cent of the step: median and quartiles over all comparisons."
    columns = ("setting", "from run to run, as learned", "what a change has to exceed")
    return Table("Noise", how, columns, rows)


def _amiss(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for outcome in outcomes:
        step, found = outcome.compared.effects.step, outcome.compared.verdict
        expected = REGRESSION if outcome.planted.place else EQUIVALENT
        if found.state == expected and (outcome.names_the_phase or not outcome.planted.place):
            continue
        cause = outcome.compared.causes[0].summary if outcome.compared.causes else "-"
        change = "-" if step is None else f"{step.relative(step.change):+.1%}"
        noise = "-" if step is None else f"{step.relative(step.noise):.1%}"
        names = [outcome.setting.name, outcome.planted.name]
        rows.append([*names, found.state, change, noise, cause])
    columns = ("setting", "planted", "said", "change", "noise", "cause")
    return Table("What was not as planted", "One row each.", columns, rows)

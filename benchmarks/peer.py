"""Bare, ours and the peer as whole processes in turn: steps, start and end, memory."""

import json
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.peer_venv import installed, peer_venv
from benchmarks.processes import SCRIPTS, run, traced
from benchmarks.report import Table, mebibytes, progress
from benchmarks.spread import spread, undisturbed

TOOLS = ("bare", "ours", "peer")
LABELS = {"bare": "bare", "ours": "traceml run", "peer": "traceml-ai"}
_WARM_SHARE = 0.25  # of the steps, not counted


@dataclass(frozen=True, slots=True)
class Size:
    """How often, and how many steps: for timing them, by parameters, and for a short run."""

    rounds: int
    steps: dict[int, int]
    short_steps: int = 200


FULL = Size(rounds=3, steps={8: 4_000, 400: 300})
QUICK = Size(rounds=1, steps={8: 2_000, 400: 150})


@dataclass(frozen=True, slots=True)
class Run:
    """One process from beginning to end."""

    median_step: float  # nanoseconds, once warm
    mean_step: float
    undisturbed_step: float
    start_seconds: float  # from the launch to the end of the first step
    end_seconds: float  # from the end of the last step to the launcher's exit
    whole_seconds: float
    beside: Sequence[int]  # resident bytes of all processes but the training one

    @property
    def peak_beside(self) -> float:
        return max(self.beside, default=0)


Runs = dict[str, list[Run]]


def tables(quick: bool) -> Iterator[Table]:
    """Steps for each model, then the short run, then memory."""
    size = QUICK if quick else FULL
    venv = peer_venv()
    versions = f"torch {installed(venv, 'torch')}, traceml-ai {installed(venv, 'traceml-ai')}"
    long = {
        parameters: _alternate(venv, parameters, steps, size.rounds)
        for parameters, steps in size.steps.items()
    }
    yield _step_table(long, size, versions)
    yield _whole_table(_alternate(venv, 8, size.short_steps, size.rounds, warm_up=True), size)
    yield _memory_table(long[8], size)


def _alternate(
    venv: Path, parameters: int, steps: int, rounds: int, *, warm_up: bool = False
) -> Runs:
    """Bare, ours, peer, bare, ours, peer, ...; a warm-up round fills caches and is dropped."""
    runs: Runs = {tool: [] for tool in TOOLS}
    for turn in range(-int(warm_up), rounds):
        for tool in TOOLS:
            progress(f"peer: {parameters} parameters, {steps} steps, round {turn + 1}, {tool}")
            ended = _run(tool, venv, parameters, steps)
            if turn >= 0:
                runs[tool].append(ended)
    return runs


def _run(tool: str, venv: Path, parameters: int, steps: int) -> Run:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "times.json"
        arguments = [
            *("--tool", tool),
            *("--parameters", str(parameters)),
            *("--steps", str(steps)),
            *("--out", str(out)),
        ]
        ended = run(_command(tool, venv, arguments, folder), folder / "output.txt", f"peer: {tool}")
        result = json.loads(out.read_text(encoding="utf-8"))
    steady = _steady(result["wall"])
    return Run(
        median_step=median(steady),
        mean_step=mean(steady),
        undisturbed_step=undisturbed(steady),
        start_seconds=result["first_step_at"] - ended.began_at,
        end_seconds=ended.ended_at - result["last_step_at"],
        whole_seconds=ended.ended_at - ended.began_at,
        beside=ended.beside(result["pid"]),
    )


def _command(tool: str, venv: Path, arguments: list[str], folder: Path) -> list[str]:
    script = SCRIPTS / "loop.py"
    if tool == "bare":
        return [sys.executable, str(script), *arguments]
    if tool == "ours":
        return traced(script, arguments, folder / "logs")
    # Its defaults, but with ports that nobody else on this machine has taken.
    ports = ["--aggregator-port", str(_free_port()), "--master-port", str(_free_port())]
    logs = ["--logs-dir", str(folder / "logs"), "--run-name", "bench"]
    launcher = [str(venv / "bin" / "traceml"), "run", str(script)]
    return [*launcher, *ports, *logs, "--args", *arguments]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _steady(times: Sequence[int]) -> Sequence[int]:
    return times[int(len(times) * _WARM_SHARE) :]


def _step_table(long: dict[int, Runs], size: Size, versions: str) -> Table:
    how = (
        f"Whole processes in turn, {size.rounds} of each: bare, ours, the peer ({versions}, in an "
        "environment of its own, `traceml run` with its defaults). The same loop in all, timed "
        "inside it, without its first quarter. Added: a process's median step (mean step; 5th "
        "percentile, undisturbed by others) less that of the bare process of its round; median "
        "over rounds, and quartiles. Processes differ by some per cent among themselves, so the "
        "finer figure for ours is the one from blocks."
    )
    columns = (
        "loop",
        "steps",
        "median step, us",
        "step / bare",
        "added, us: medians",
        "added, us: means",
        "added, us: undisturbed",
    )
    rows = [
        _step_row(tool, parameters, size.steps[parameters], runs)
        for parameters, runs in long.items()
        for tool in TOOLS
    ]
    return Table("Per step, beside the peer", how, columns, rows)


def _step_row(tool: str, parameters: int, steps: int, runs: Runs) -> list[str]:
    typical = median(each.median_step for each in runs[tool])
    bare = median(each.median_step for each in runs["bare"])
    pairs = list(zip(runs[tool], runs["bare"], strict=True))
    added = (
        [with_tool.median_step - without.median_step for with_tool, without in pairs],
        [with_tool.mean_step - without.mean_step for with_tool, without in pairs],
        [with_tool.undisturbed_step - without.undisturbed_step for with_tool, without in pairs],
    )
    return [
        f"{LABELS[tool]}, {parameters} parameters",
        str(steps),
        f"{typical / 1e3:.0f}",
        f"{typical / bare:.3f}",
        *("-" if tool == "bare" else spread(values).show(1e-3, digits=0) for values in added),
    ]


def _whole_table(runs: Runs, size: Size) -> Table:
    how = (
        f"A single-process script of {size.short_steps} steps (8 parameters), bare and under "
        f"each launcher in turn, {size.rounds} of each after one uncounted round, timed from "
        "outside. Start: launch to the end of the first step. End: last step to the launcher's "
        "exit. Seconds, median and quartiles; added is the difference of medians."
    )
    columns = ("command", "start, s", "end, s", "whole run, s", "added at start + end, s")
    bare = _start_and_end(runs["bare"])
    rows = [
        [
            LABELS[tool],
            spread([each.start_seconds for each in of]).show(digits=2),
            spread([each.end_seconds for each in of]).show(digits=2),
            spread([each.whole_seconds for each in of]).show(digits=2),
            "-" if tool == "bare" else f"{_start_and_end(of) - bare:.2f}",
        ]
        for tool, of in runs.items()
    ]
    return Table("Start and end of a short run", how, columns, rows)


def _start_and_end(runs: Sequence[Run]) -> float:
    return median(each.start_seconds + each.end_seconds for each in runs)


def _memory_table(runs: Runs, size: Size) -> Table:
    how = (
        f"During the runs of {size.steps[8]} steps above: the resident sets of all processes "
        "that the launcher started, and its own, without the training process, summed every "
        "half second while that lived (shared pages count in each). Median of each run, and "
        "peak of all."
    )
    rows = [
        [
            LABELS[tool],
            mebibytes(median(median(each.beside) for each in of if each.beside)),
            mebibytes(max(each.peak_beside for each in of)),
        ]
        for tool, of in runs.items()
        if tool != "bare"
    ]
    return Table("Memory beside the training", how, ("tool", "median", "peak"), rows)

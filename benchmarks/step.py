"""What tracing adds to a step: bare and traced blocks in turn, in one process."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.processes import SCRIPTS, run, traced
from benchmarks.report import Table, progress
from benchmarks.spread import Spread, spread, undisturbed


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a model, a number of processes, and how much of it to run."""

    parameters: int
    processes: int
    blocks: int
    steps: int
    scoped: bool = False

    @property
    def label(self) -> str:
        kind = "single process" if self.processes == 1 else f"DDP, {self.processes} gloo ranks"
        return f"{self.parameters} parameters, {kind}{', trace_step' if self.scoped else ''}"


FULL = (
    Case(8, 1, 300, 40),
    Case(8, 1, 300, 40, scoped=True),
    Case(400, 1, 300, 8),
    Case(8, 2, 200, 25),
    Case(400, 2, 150, 6),
)
QUICK = (
    Case(8, 1, 60, 30),
    Case(8, 1, 60, 30, scoped=True),
    Case(400, 1, 40, 6),
    Case(8, 2, 40, 20),
    Case(400, 2, 20, 5),
)

_HOW = (
    "Blocks of steps in turn in one process below `traceml run`, with a live sidecar and, unless "
    "the row says otherwise, without a word of TraceML in the loop: bare, "
    "traced, bare, marked, traced, bare, ... Before a bare block every hook is taken out, before "
    "a traced one put back; the first 3 steps after a switch are not counted. Added by medians: "
    "the median step of a traced block less the mean of the medians of the bare blocks before "
    "and after; median over blocks, and quartiles. By means: the same with means, which hold "
    "what the sender's thread delays. Undisturbed: the 5th percentile of all traced steps less "
    "that of all bare ones, on the training thread's CPU clock, which other processes change "
    "least. The floor: the same for marked blocks, where ten bare timestamps are written into "
    "the loop by hand. `CPU beside` is what the threads that came with TraceML (the sender) "
    "took meanwhile, as a share of a core. torch runs on one thread; DDP's times are rank 0's."
)

_COLUMNS = (
    "training",
    "blocks x steps",
    "bare step, us",
    "traced / bare",
    "added, us: medians",
    "added, us: means",
    "added, us: undisturbed",
    "the floor, us",
    "CPU beside",
)


def tables(quick: bool) -> Iterator[Table]:
    """One table, a row for each case."""
    rows = []
    for case in QUICK if quick else FULL:
        progress(f"step: {case.label}")
        rows.append(_row(case, _measure(case)))
    yield Table("Added time per step", _HOW, _COLUMNS, rows)


def _measure(case: Case) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        arguments = [
            *("--parameters", str(case.parameters)),
            *("--blocks", str(case.blocks)),
            *("--steps", str(case.steps)),
            *("--out", str(out)),
            *(["--scoped"] if case.scoped else []),
        ]
        command = traced(SCRIPTS / "blocks.py", arguments, Path(folder) / "logs", case.processes)
        run(command, Path(folder) / "output.txt", f"step: {case.label}")
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return result


def _row(case: Case, result: dict[str, Any]) -> list[str]:
    bare = median(_each(result["bare"], median))
    added = _added(result, median)
    return [
        case.label,
        f"{case.blocks} x {case.steps}",
        f"{bare / 1e3:.0f}",
        f"{1 + added.median / bare:.3f}",
        added.show(1e-3),
        _added(result, mean).show(1e-3),
        *(f"{_added_undisturbed(result, kind) / 1e3:.1f}" for kind in ("traced", "marked")),
        f"{result['cores_beside']:.1%}",
    ]


def _added(result: dict[str, Any], middle: Callable[[Any], float]) -> Spread:
    around = [(before + after) / 2 for before, after in pairwise(_each(result["bare"], middle))]
    traced_blocks = _each(result["traced"], middle)
    return spread([block - bare for block, bare in zip(traced_blocks, around, strict=True)])


def _each(blocks: Sequence[dict[str, Any]], middle: Callable[[Any], float]) -> list[float]:
    return [middle(block["wall"]) for block in blocks]


def _added_undisturbed(result: dict[str, Any], kind: str) -> float:
    steps, bare_steps = (
        undisturbed([step for block in result[of] for step in block["cpu"]])
        for of in (kind, "bare")
    )
    return steps - bare_steps

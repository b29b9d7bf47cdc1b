"""Summaries made up: steps with hiccups that come in groups, of runs that differ by themselves."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.builders import run_of
from traceml.report.compare.side import Reading, Series, Side
from traceml.report.summary import summary

# A step of 20 ms.
PHASES: Mapping[str, float] = {
    "dataloader": 0.001,
    "forward": 0.006,
    "backward": 0.007,
    "optimizer": 0.005,
    "other": 0.001,
}
_MOST_PARTS = 256
_ids = itertools.count()


@dataclass(frozen=True)
class Workload:
    """What runs have in common."""

    phases: Mapping[str, float] = field(default_factory=lambda: dict(PHASES))
    steps: int = 200
    step_noise: float = 0.05  # of a phase, from step to step
    alike: float = 0.5  # neighbouring steps
    run_noise: float = 0.005
    hiccups: float = 0.03  # of the steps: up to two and a half times as long

    def slower(self, phase: str, step_ratio: float) -> "Workload":
        """The same with one phase longer, so that the step is by that ratio."""
        added = step_ratio * sum(self.phases.values())
        phases = {**self.phases, phase: self.phases[phase] + added}
        return Workload(
            phases, self.steps, self.step_noise, self.alike, self.run_noise, self.hiccups
        )


def made_summary(
    rng: np.random.Generator, workload: Workload | None = None, name: str = "run", **run: Any
) -> dict[str, Any]:
    """The summary of one run of a workload on one rank."""
    workload = workload or Workload()
    times = _times(rng, workload)
    steps = times.sum(axis=1)
    document = summary(run_of(1, steps=2))  # what nothing depends on here
    document["run"].update(
        {"name": name, "id": f"run-{next(_ids)}", "world_size": 1, "nnodes": 1, **run}
    )
    document["step_time"].update(
        steps={"completed": len(steps), "incomplete": 0, "excluded": {}},
        step=_spread(steps),
        phases={phase: _spread(times[:, number]) for number, phase in enumerate(workload.phases)},
        distribution={
            "bounds_seconds": [], "counts": [len(steps)],
            "parts": _parts(times, list(workload.phases)),
        },
    )  # fmt: skip
    peak = 2.0**30 * (1 + 0.002 * rng.normal())
    document["step_memory"]["peaks"] = {
        "rss": {"median_bytes": peak, "worst_bytes": peak, "worst_rank": 0}
    }
    document["ranks"][0].update(steps=len(steps), samples=32 * len(steps), host="here")
    document["telemetry"].update(records_received=len(steps), records_dropped=0)
    return document


def made_side(rng: np.random.Generator, workload: Workload) -> Side:
    """What compare reads of such a summary, on a shorter way."""
    times = _times(rng, workload)
    phases = {phase: _reading(times[:, number]) for number, phase in enumerate(workload.phases)}
    return Side("run", "traceml", len(times), _reading(times.sum(axis=1)), phases)


def write_summary(folder: Path, document: Mapping[str, Any]) -> Path:
    """As `final_summary.json` in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "final_summary.json"
    file.write_text(json.dumps(document))
    return file


def _times(rng: np.random.Generator, workload: Workload) -> Any:
    """Step x phase."""
    means = np.array(list(workload.phases.values()))
    noise = _wandering(rng, workload, len(means))
    late = rng.random(workload.steps) < workload.hiccups
    hiccup = np.where(late, rng.uniform(1.2, 2.5, workload.steps), 1.0)
    factor = max(1 + workload.run_noise * rng.normal(), 0.1)
    return means * np.maximum(1 + workload.step_noise * noise, 0.1) * factor * hiccup[:, None]


def _wandering(rng: np.random.Generator, workload: Workload, columns: int) -> Any:
    values = rng.normal(size=(workload.steps, columns))
    values[1:] *= np.sqrt(1 - workload.alike**2)
    for step in range(1, len(values)):
        values[step] += workload.alike * values[step - 1]
    return values


def _spread(times: Any) -> dict[str, Any]:
    capped = float(np.minimum(times, np.percentile(times, 95)).mean())
    return {"median_seconds": capped, "worst_seconds": capped, "worst_rank": 0, "skew_ratio": 0.0}


def _reading(times: Any) -> Reading:
    series = Series(tuple(times.tolist()), (1,) * len(times))
    return Reading(_spread(times)["median_seconds"], series)


def _parts(times: Any, phases: Sequence[str]) -> list[dict[str, Any]]:
    stride = 1
    while len(times) >= stride * _MOST_PARTS:
        stride *= 2
    return [
        {
            "steps": len(part),
            "seconds": float(part.sum(axis=1).mean()),
            "longest_seconds": float(part.sum(axis=1).max()),
            "excluded": 0,
            "ended_after_seconds": float(times[: start + len(part)].sum()),
            "phases": dict(zip(phases, part.mean(axis=0).tolist(), strict=True)),
        }
        for start in range(0, len(times), stride)
        for part in [times[start : start + stride]]
    ]

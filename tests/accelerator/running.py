"""Trainings on the fake accelerator in processes of their own, and what they told."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.accelerator.plan import Plan
from tests.accelerator.truth import Step

SETTLING = 5  # steps: what is learned in the first ones takes time
_ROOT = Path(__file__).parents[2]
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one process told: its records, and what its device truly did."""

    plan: Plan
    told: dict[str, Any]

    @property
    def steps(self) -> list[dict[str, float]]:
        """The records, as they are sent."""
        steps: list[dict[str, float]] = self.told["steps"]
        return steps

    @property
    def truth(self) -> list[Step]:
        return [Step(**step) for step in self.told["truth"]]

    def cpu_ms(self, phase: str) -> float:
        return self._typical(f"{phase}_ns")

    def device_ms(self, phase: str) -> float:
        return self._typical(f"device_{phase}_ns")

    def true_ms(self, of_step: Callable[[Step], float]) -> float:
        return median(of_step(step) for step in self.truth[SETTLING - 1 :])

    def _typical(self, name: str) -> float:
        """NaN if it is absent in most steps."""
        values = sorted(step[name] for step in self.steps[SETTLING:] if step[name] == step[name])
        is_told = 2 * len(values) > len(self.steps[SETTLING:])
        return median(values) / 1e6 if is_told else float("nan")


def run(plan: Plan) -> Run:
    """Run one process, which stands for all ranks."""
    return run_all([plan])[0]


def run_pair(plan: Plan) -> list[Run]:
    """Run the ranks of a plan, which wait for each other."""
    with tempfile.TemporaryDirectory() as folder:
        together = replace(plan, rendezvous=folder)
        return run_all([replace(together, rank=rank) for rank in range(plan.world)], plan.world)


def run_all(plans: Sequence[Plan], at_once: int = 1) -> list[Run]:
    """Run these, so many at a time."""
    command = [sys.executable, "-m", "tests.accelerator.training", str(at_once)]
    command += [plan.to_json() for plan in plans]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [Run(plan, told) for plan, told in zip(plans, json.loads(done.stdout), strict=True)]

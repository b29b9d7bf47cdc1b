"""The device's clock on a device that truly works on while the CPU goes its own way.

What is compared are shares and ratios within a run, so that a slow machine is no failure.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.accelerator.training import Plan
from traceml.wire.columns import PHASES

pytestmark = pytest.mark.alone

FAST = Plan(copy=8, forward=6, backward=8, exchange=20, optimizer=4)
_SETTLING = 5  # steps: what is learned in the first ones takes time


class Run:
    """What one rank recorded."""

    def __init__(self, told: dict[str, Any], steps: int) -> None:
        assert (told["clock"], told["faults"], told["notes"]) == ("DeviceClock", 0, [])
        self.steps: list[dict[str, float]] = told["steps"]
        assert len(self.steps) == steps

    def cpu(self, phase: str) -> float:
        return self._typical(f"{phase}_ns")

    def device(self, phase: str) -> float:
        return self._typical(f"device_{phase}_ns")

    def _typical(self, name: str) -> float:
        values = [step[name] for step in self.steps[_SETTLING:]]
        assert all(value == value for value in values), f"{name} is absent in some steps"
        return median(values)


@pytest.fixture(scope="module")
def fast(built: Path) -> Run:
    return run(built, FAST)


def run(built: Path, plan: Plan) -> Run:
    command = [sys.executable, "-m", "tests.accelerator.training", str(built), plan.arguments()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return Run(json.loads(done.stdout), plan.steps)


def test_a_fetch_behind_queued_work_costs_the_device_nothing(built: Path) -> None:
    hidden = run(built, Plan(fetch=10, forward=10, backward=10, optimizer=5))
    assert hidden.cpu("dataloader") > 0.5 * hidden.cpu("step")
    assert hidden.device("dataloader") < 0.05 * hidden.device("step")


def test_an_exposed_fetch_is_as_long_on_the_device_as_it_is(built: Path) -> None:
    exposed = run(built, Plan(fetch=20, forward=5, backward=5, waits=True))
    assert 0.8 < exposed.device("dataloader") / exposed.cpu("dataloader") < 1.25
    assert exposed.device("dataloader") > 0.4 * exposed.device("step")
    assert exposed.cpu("forward") < 0.5 * exposed.device("forward")


def test_work_is_in_the_phase_that_queued_it_and_phases_add_up(fast: Run) -> None:
    planned = {
        "h2d": FAST.copy, "forward": FAST.forward, "backward": FAST.backward,
        "collective_wait": FAST.exchange, "optimizer": FAST.optimizer,
    }  # fmt: skip
    scale = fast.device("step") / sum(planned.values())
    for phase, ms in planned.items():
        assert 0.7 < fast.device(phase) / (ms * scale) < 1.4, phase
    for step in fast.steps[_SETTLING:]:
        total = sum(step[f"device_{phase}_ns"] for phase in PHASES)
        assert total == pytest.approx(step["device_step_ns"], rel=1e-3)
    # From the end of the exchange to the end of the step there is the optimizer.
    assert 0.7 < fast.device("end") / fast.device("optimizer") < 1.4


def test_a_slow_backward_on_one_rank_shows_there_and_nowhere_else(built: Path, fast: Run) -> None:
    """Two ranks whose steps are equally long, as an exchange makes them."""
    slow = run(built, replace(FAST, backward=FAST.backward + 16, exchange=FAST.exchange - 16))
    assert 0.8 < slow.device("step") / fast.device("step") < 1.25
    excess = {
        phase: slow.device(phase) - fast.device(phase)
        for phase in PHASES
        if phase != "collective_wait"
    }
    assert max(excess, key=excess.__getitem__) == "backward"
    others = [abs(ns) for phase, ns in excess.items() if phase != "backward"]
    assert sum(others) < 0.25 * excess["backward"]
    assert fast.device("collective_wait") > 2 * slow.device("collective_wait")
    # The CPU only queues this work, and has nothing to tell of it.
    assert abs(slow.cpu("backward") - fast.cpu("backward")) < 0.25 * excess["backward"]

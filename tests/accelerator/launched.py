"""Trainings on the fake accelerator under `traceml run`, as users start theirs."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.accelerator.plan import Plan
from tests.accelerator.running import SETTLING
from tests.accelerator.truth import Step
from tests.launching import SCRIPTS, Finished, Launcher

_ROOT = Path(__file__).parents[2]
_SCRIPT = Path(__file__).with_name("pair.py")

# TraceML is there before the device is, and is to expect one.
_ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(SCRIPTS / "pretending")])}


def start(launcher: Launcher, plan: Plan, *options: str) -> "subprocess.Popen[str]":
    """Start the plan's ranks."""
    folder = _rendezvous(launcher)
    folder.mkdir()
    return launcher.start(
        *options, f"--nproc-per-node={plan.world}", str(_SCRIPT),
        "--args", replace(plan, rendezvous=str(folder)).to_json(), environment=_ENVIRONMENT,
    )  # fmt: skip


def finish(launcher: Launcher, plan: Plan) -> Finished:
    """Run the plan's ranks to their end."""
    finished = launcher.finish(start(launcher, plan))
    assert finished.exit_code == 0, finished.stderr
    return finished


def true_idle_ratio(launcher: Launcher, rank: int = 0) -> float:
    """How much of its typical step a rank's device truly idled within compute."""
    file = _rendezvous(launcher) / f"truth-{rank}.json"
    steps = [Step(**step) for step in json.loads(file.read_text())]
    return median(_idle(step) / step.length for step in steps[SETTLING:])


def _idle(step: Step) -> float:
    return sum(step.idle.get(phase, 0.0) for phase in ("forward", "backward", "optimizer"))


def _rendezvous(launcher: Launcher) -> Path:
    return launcher.folder / "rendezvous"

"""Trainings on the fake accelerator, each in a process of its own, because torch knows a
device for good: `python -m tests.accelerator.training AT_ONCE PLAN ...` prints, as a list,
what each recorded, and the truth.
"""

import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from tests.accelerator.backend import register
from tests.accelerator.loop import join, train
from tests.accelerator.plan import Plan, from_json
from tests.accelerator.truth import steps_of
from traceml.rank.tracer import Tracer
from traceml.wire.columns import VALUES, decode

_NOWHERE = "unix:///nonexistent/traceml.sock"


def main(at_once: int, plans: Sequence[Plan]) -> int:
    """Forks, so that torch is imported but once."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(number) for number in range(len(plans))]
        fork = multiprocessing.get_context("fork").Process
        waiting = [fork(target=run, args=pair) for pair in zip(plans, files, strict=True)]
        has_failed = any(process.exitcode for process in _run(waiting, at_once))
        if not has_failed:
            print(json.dumps([json.loads(file.read_text()) for file in files]))
    return int(has_failed)


def _run(processes: Sequence[BaseProcess], at_once: int) -> Iterator[BaseProcess]:
    """Run so many at a time; yields each when it has ended."""
    waiting, running = list(processes), list[BaseProcess]()
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0))
            running[-1].start()
        ended = wait([process.sentinel for process in running])
        for process in [process for process in running if process.sentinel in ended]:
            process.join()
            running.remove(process)
            yield process


def run(plan: Plan, file: Path) -> None:
    """Train, and write down what was recorded and what is true."""
    register(Path(plan.rendezvous) if plan.rendezvous else None)
    tracer = Tracer(_NOWHERE) if plan.traced else None
    join(plan)
    before = _counts()
    losses = train(plan)
    torch.fake.drain()
    asked = {name: count - before[name] for name, count in _counts().items()}
    told = {"losses": losses, "counts": asked, "truth": _truth()}
    if tracer is not None:
        told |= _recorded(tracer)
    file.write_text(json.dumps(told))


def _counts() -> dict[str, int]:
    """What was asked of the device so far."""
    fake = torch.fake
    return {
        "recorded": fake.recorded(),
        "queried": fake.queried(),
        "synchronisations": fake.synchronisations(),
        "collectives": fake.collectives(),
    }


def _truth() -> list[dict[str, Any]]:
    return [asdict(step) for step in steps_of(torch.fake.log())]


def _recorded(tracer: Tracer) -> dict[str, Any]:
    clock = type(tracer.recorder.device).__name__
    tracer._at_exit()
    sender = tracer._sender
    assert sender is not None
    rows = [row for batch in sender._backlog for row in decode(batch).values.tolist()]
    return {
        "faults": tracer.recorder.faults,
        "notes": list(tracer.recorder.notes),
        "clock": clock,
        "device": sender._identity.device,
        "steps": [dict(zip(VALUES, row, strict=True)) for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [from_json(plan) for plan in sys.argv[2:]]))

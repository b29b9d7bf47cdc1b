"""Bare and traced blocks of steps in turn, in one process, below `traceml run`.

Before a bare block every hook is taken out of torch and of the model; before a
traced one they are put back. Rank 0 writes the time of each step.
"""

import argparse
import json
import os
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import torch

from benchmarks.scripts.workload import Step, Times, Workload, workload
from traceml import trace_step
from traceml.rank import step as tracing
from traceml.rank.events import ABANDON

_WARM_STEPS = 20
_SETTLE_STEPS = 3  # after each switch: the root is found again, the ready mark learned again


class Switch:
    """TraceML in this process, in place or not; the sender lives on either way."""

    def __init__(self) -> None:
        assert tracing._tracer is not None, "run this below `traceml run`"
        self._tracer = tracing._tracer

    def off(self) -> None:
        """Leave nothing of ours in torch or in the model."""
        self._tracer.unhook()
        assert not hasattr(torch.autograd.backward, "__wrapped__")

    def on(self) -> None:
        """Hook torch and the model again."""
        self._tracer.hook()
        self._tracer.recorder.mark(ABANDON)


def main() -> None:
    arguments = _arguments()
    switch = Switch()
    switch.off()
    block = arguments.steps + _SETTLE_STEPS
    training = workload(arguments.parameters, _WARM_STEPS + (3 * arguments.blocks + 1) * block)
    training.time(training.step, _WARM_STEPS)
    before = {thread.id for thread in psutil.Process().threads()}
    begin = monotonic()
    blocks = _alternate(training, switch, arguments)
    beside = _cpu_seconds_of_others(before) / (monotonic() - begin)
    if os.environ.get("RANK", "0") == "0":
        result = {**blocks, "cores_beside": beside}
        arguments.out.write_text(json.dumps(result), encoding="utf-8")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parameters", type=int, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--scoped", action="store_true", help="with trace_step in the loop")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _alternate(
    training: Workload, switch: Switch, arguments: argparse.Namespace
) -> dict[str, list[Times]]:
    model, steps = training.model, arguments.steps

    def bare_step(batch: Any) -> None:
        training.step(batch)

    def scoped_step(batch: Any) -> None:
        with trace_step(model):
            training.step(batch)

    def marked_step(batch: Any) -> None:
        training.marked_step(batch)

    bare, traced, marked = [_block(training, bare_step, steps)], [], []
    traced_step = scoped_step if arguments.scoped else bare_step
    for _ in range(arguments.blocks):
        switch.on()
        traced.append(_block(training, traced_step, steps))
        switch.off()
        bare.append(_block(training, bare_step, steps))
        marked.append(_block(training, marked_step, steps))
    return {"bare": bare, "traced": traced, "marked": marked}


def _block(training: Workload, step: Step, steps: int) -> Times:
    training.time(step, _SETTLE_STEPS)
    return training.time(step, steps)


def _cpu_seconds_of_others(before: set[int]) -> float:
    """CPU time of the threads that came with TraceML: the sender's, above all."""
    threads = psutil.Process().threads()
    return sum(of.user_time + of.system_time for of in threads if of.id not in before)


if __name__ == "__main__":
    main()

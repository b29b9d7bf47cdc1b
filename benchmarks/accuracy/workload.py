"""A training run that follows a schedule, without a word of TraceML in it.

`traceml run --nproc-per-node=2 workload.py -- --schedule FILE --out FILE`
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.accuracy.faults import Faults
from benchmarks.accuracy.labour import Labour
from benchmarks.accuracy.models import WIDTH, make_model, make_optimizer
from benchmarks.accuracy.schedule import CALIBRATION_STEPS, Schedule

Scope = Callable[[Any], AbstractContextManager[Any]]  # around a step

_WARM_STEPS = 5
_SAVED_BYTES = 8 * 2**20
_EVALUATION_BATCHES = 5


class Batches(IterableDataset[Any]):
    """Batches without end, with the work of input."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def __iter__(self) -> Iterator[Any]:
        self._faults.start_cold()
        while True:
            self._faults.work("input")
            yield torch.randn(self._faults.batch_size, WIDTH)


class Training:
    """The loop's body and what it needs."""

    def __init__(self, schedule: Schedule, faults: Faults, scratch: Path, scope: Scope) -> None:
        self._faults = faults
        self._scope = scope
        self._reduces = schedule.model == "reduce_between"
        self._model = make_model(schedule, faults)
        self._optimizer = make_optimizer(self._model, faults)
        self._batches = iter(DataLoader(Batches(faults), batch_size=None))
        self._scratch = scratch
        self._saved = torch.zeros(_SAVED_BYTES // 4)

    def step(self) -> None:
        """Everything from the end of one step to the end of the next."""
        self._between()
        batch = next(self._batches)
        with self._scope(self._model):
            for _ in range(self._faults.segment.accumulate - 1):
                with self._model.no_sync():
                    self._learn(batch)
                batch = next(self._batches)
            self._learn(batch)
            self._optimizer.step()
            self._optimizer.zero_grad()

    def _learn(self, batch: Any) -> None:
        loss = nn.functional.mse_loss(self._model(batch), batch[:, :1])
        loss.backward()

    def _between(self) -> None:
        segment = self._faults.segment
        self._faults.work("other")
        if self._reduces:
            dist.all_reduce(torch.ones(1))
        if self._faults.is_due(segment.save_every) and dist.get_rank() == 0:
            torch.save({"model": self._model.state_dict(), "more": self._saved}, self._scratch)
        if self._faults.is_due(segment.evaluate_every):
            self._evaluate()

    def _evaluate(self) -> None:
        self._model.eval()
        with torch.no_grad():
            for _ in range(_EVALUATION_BATCHES):
                self._model(torch.randn(self._faults.batch_size, WIDTH))
        self._model.train()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="what was measured of it")
    parser.add_argument("--peer", action="store_true", help="with the peer's own step around it")
    arguments = parser.parse_args()
    schedule = Schedule.from_json(arguments.schedule.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    run(schedule, arguments.out, _peer_scope() if arguments.peer else nullcontext)
    dist.destroy_process_group()


def run(schedule: Schedule, out: Path, scope: Scope) -> None:
    labour = Labour(schedule.work)
    faults = Faults(schedule, dist.get_rank(), labour)
    training = Training(schedule, faults, out.with_suffix(".pt"), scope)
    lengths: list[float] = []
    for step in range(schedule.steps):
        if step == CALIBRATION_STEPS:
            faults.healthy_step_seconds = _agreed(median(lengths[_WARM_STEPS:]))
            _tell(schedule, faults, labour, out)
        faults.begin(step)
        begin = time.perf_counter()
        training.step()
        lengths.append(time.perf_counter() - begin)


def _peer_scope() -> Scope:
    import traceml_ai

    traceml_ai.init(mode="auto")
    scope: Scope = traceml_ai.trace_step
    return scope


def _agreed(seconds: float) -> float:
    """Rank 0's figure, on all ranks."""
    told = torch.tensor(seconds, dtype=torch.float64)
    dist.broadcast(told, src=0)
    return float(told)


def _tell(schedule: Schedule, faults: Faults, labour: Labour, out: Path) -> None:
    if dist.get_rank() != 0:
        return
    told = {
        "cores": os.cpu_count(),
        "healthy_step_seconds": faults.healthy_step_seconds,
        "product_seconds": {"together": labour.seconds_together, "alone": labour.seconds_alone},
        "segments": [
            {"first_step": start, "what": segment.label}
            for start, segment in zip(schedule.starts, schedule.segments, strict=True)
        ],
    }
    out.write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The training that is timed: a chain of layers, two parameters each, on one thread."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns, thread_time_ns
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

# By the number of parameters. Few and large: about 1 ms a step. Many: as cheap as layers
# with parameters get, because the longer a step, the less what is added shows in it.
_WIDTHS = {8: 160, 400: 16}
_LAYERS: dict[int, Callable[[int], Any]] = {
    8: lambda width: nn.Sequential(nn.Linear(width, width), nn.ReLU()),
    400: nn.LayerNorm,
}
_BATCH = 32
_RECORDS: deque[list[int]] = deque(maxlen=1_000)

Step = Callable[[Any], None]
Times = dict[str, list[int]]  # `wall` and `cpu`, the latter of the training thread alone


@dataclass(frozen=True, slots=True)
class Workload:
    """A model, its optimizer and its batches, as any loop has them."""

    model: Any
    optimizer: Any
    batches: Iterator[Any]

    def step(self, batch: tuple[Any, Any]) -> None:
        """One training step on one batch."""
        inputs, targets = batch
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        loss.backward()
        self.optimizer.step()

    def marked_step(self, batch: tuple[Any, Any]) -> None:
        """The same step with bare timestamps written into it: the least that tracing can cost."""
        marks = [perf_counter_ns(), perf_counter_ns()]
        inputs, targets = batch
        self.optimizer.zero_grad()
        marks.append(perf_counter_ns())
        predicted = self.model(inputs)
        marks.append(perf_counter_ns())
        loss = nn.functional.mse_loss(predicted, targets)
        marks.append(perf_counter_ns())
        loss.backward()
        marks += [perf_counter_ns(), perf_counter_ns()]
        self.optimizer.step()
        marks += [perf_counter_ns(), perf_counter_ns(), perf_counter_ns()]
        _RECORDS.append(marks)

    def time(self, step: Step, steps: int) -> Times:
        """Nanoseconds of each of `steps` steps, fetch included: by the clock, and on the CPU."""
        wall, cpu = [], []
        for _ in range(steps):
            cpu_begin, begin = thread_time_ns(), perf_counter_ns()
            step(next(self.batches))
            end, cpu_end = perf_counter_ns(), thread_time_ns()
            wall.append(end - begin)
            cpu.append(cpu_end - cpu_begin)
        return {"wall": wall, "cpu": cpu}


def workload(parameters: int, steps: int) -> Workload:
    """The training with so many parameters and batches; DDP if there are several processes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = _WIDTHS[parameters]
    model: Any = nn.Sequential(*(_LAYERS[parameters](width) for _ in range(parameters // 2)))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
        model = DistributedDataParallel(model)
    batch = (torch.randn(_BATCH, width), torch.randn(_BATCH, width))
    return Workload(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        batches=iter(DataLoader([batch] * steps, batch_size=None)),
    )

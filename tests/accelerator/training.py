"""A training on the accelerator that is none: its phases take, on the device, what is said.

Run as a program of its own, because torch knows a backend for good: prints its steps.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from tests.accelerator.backend import register
from traceml.rank.events import DISTRIBUTED
from traceml.rank.tracer import Tracer
from traceml.wire.columns import VALUES, decode


@dataclass(frozen=True)
class Plan:
    """Milliseconds: the fetch's on the CPU, the others' on the device."""

    fetch: float = 0.0
    copy: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    exchange: float = 0.0
    optimizer: float = 0.0
    steps: int = 25
    waits: bool = False  # for the device, at the end of each step

    def arguments(self) -> str:
        return json.dumps(asdict(self))


class Device:
    """Queues work in the places where a model's kernels would be."""

    def __init__(self, backend: Any, plan: Plan) -> None:
        self._backend = backend
        self.plan = plan

    def work(self, ms: float) -> None:
        self._backend.work(ms / 1e3)

    def drain(self) -> None:
        self._backend.drain()

    def slow_copies(self) -> None:
        original = torch.Tensor.to

        def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            copied = original(tensor, *args, **kwargs)
            if tensor.is_cpu and not copied.is_cpu:
                self.work(self.plan.copy)
            return copied

        torch.Tensor.to = to

    def exchange(self, parameter: torch.Tensor) -> None:
        """As DDP does: from a callback that runs after all own work of the backward."""
        queue = torch.autograd.Variable._execution_engine.queue_callback

        def last() -> None:
            queue(lambda: self.work(self.plan.exchange))  # after those that are queued by now

        parameter.register_post_accumulate_grad_hook(lambda _: queue(last))


class Batches(IterableDataset[torch.Tensor]):
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(self.plan.steps):
            time.sleep(self.plan.fetch / 1e3)
            yield torch.ones(4)


class Model(torch.nn.Module):
    def __init__(self, device: Device) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.device = device

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.device.work(self.device.plan.forward)
        return Slow.apply(self.linear(inputs), self.device)


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, device: Device) -> torch.Tensor:
        ctx.device = device
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.device.work(ctx.device.plan.backward)
        return gradient, None


class Optimizer(torch.optim.SGD):
    device: Device

    def step(self, closure: Any = None) -> None:
        self.device.work(self.device.plan.optimizer)
        super().step(closure)


def train(device: Device, tracer: Tracer) -> None:
    plan = device.plan
    model = Model(device).to("fake:0")
    device.exchange(model.linear.weight)
    tracer.recorder.note(DISTRIBUTED)
    tracer._ready.attach([model])
    optimizer = Optimizer(model.parameters(), lr=0.01)
    optimizer.device = device
    for batch in DataLoader(Batches(plan), batch_size=1):
        loss = model(batch.to("fake:0")).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if plan.waits:
            device.drain()
    device.drain()


def main(folder: str, plan: str) -> None:
    device = Device(register(Path(folder)), Plan(**json.loads(plan)))
    device.slow_copies()
    tracer = Tracer(f"unix://{folder}/nobody.sock")
    train(device, tracer)
    clock = type(tracer.recorder.device).__name__
    tracer._at_exit()
    sender = tracer._sender
    assert sender is not None
    batches = [decode(batch) for batch in sender._backlog]
    rows = [row for batch in batches for row in batch.values.tolist()]
    told = {
        "faults": tracer.recorder.faults,
        "notes": list(tracer.recorder.notes),
        "clock": clock,
        "steps": [dict(zip(VALUES, row, strict=True)) for row in rows],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The loop of a training on the fake accelerator.

It marks, in the device's log, where each phase begins and each step ends.
"""

import gc
import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from tests.accelerator.backend import COMM, NAME
from tests.accelerator.modules import WIDTH, Block, model_of
from tests.accelerator.plan import Plan

_SAMPLES = 4


class Samples(IterableDataset[Tensor]):
    """As many batches as there are to be trained on."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> Iterator[Tensor]:
        generator = torch.Generator().manual_seed(0)
        for number in range(self.plan.steps * self.plan.micro_batches):
            time.sleep(self.plan.at(number // self.plan.micro_batches).fetch / 1e3)
            yield torch.randn(_SAMPLES, WIDTH, generator=generator)


class Optimizer(torch.optim.SGD):
    ms = 0.0

    def step(self, closure: Any = None) -> None:
        torch.fake.work(self.ms, "optimizer")
        super().step(closure)


class Pace:
    """Lets the CPU be some steps before the device, as a queue of launches does."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._ends: deque[Any] = deque()

    def keep(self) -> None:
        end = torch.fake.Event()
        end.record()
        self._ends.append(end)
        if len(self._ends) > self._ahead:
            self._ends.popleft().synchronize()


def join(plan: Plan) -> None:
    """Make the process group, if there is one."""
    if plan.world == 1:
        return
    store = (
        dist.FileStore(str(Path(plan.rendezvous) / "store"), plan.world)
        if plan.rendezvous
        else dist.HashStore()
    )
    dist.init_process_group(COMM, store=store, rank=plan.rank, world_size=plan.world)


def train(plan: Plan) -> list[float]:
    """Train as planned; returns the losses."""
    torch.manual_seed(0)
    model = model_of(plan)
    optimizer = Optimizer(model.parameters(), lr=0.001)
    torch.fake.set_collectives(plan.collective, plan.on_current_stream)
    if plan.frozen:
        gc.freeze()
    pace, losses = Pace(plan.ahead), []
    batches = _batches(plan)
    for step in range(plan.steps):
        now = plan.at(step)
        if step in (0, plan.late_from):
            _take_times(model, optimizer, now)
        for micro_batch in range(plan.micro_batches):
            torch.fake.mark("input")
            losses.append(_forward_and_backward(model, next(batches), _is_kept(plan, micro_batch)))
        torch.fake.mark("optimizer")
        optimizer.step()
        torch.fake.mark("step")
        optimizer.zero_grad()
        if now.other:
            torch.fake.work(now.other, "other")
        if plan.reads_loss:
            losses[-1].item()
        pace.keep()
    return [float(loss) for loss in losses]


def _take_times(model: torch.nn.Module, optimizer: Optimizer, plan: Plan) -> None:
    torch.fake.set_copies(plan.copy, False)
    optimizer.ms = plan.optimizer
    for block in model.modules():
        if isinstance(block, Block):
            block.take_times(plan)


def _is_kept(plan: Plan, micro_batch: int) -> bool:
    """Whether gradients stay on this rank for now."""
    return plan.shape == "ddp_no_sync" and micro_batch < plan.micro_batches - 1


def _forward_and_backward(model: Any, batch: Tensor, is_kept: bool) -> Tensor:
    with model.no_sync() if is_kept else nullcontext():
        torch.fake.mark("forward")
        loss = model(batch).square().mean()
        torch.fake.mark("backward")
        loss.backward()
    torch.fake.mark("input")
    return loss.detach()


def _batches(plan: Plan) -> Iterator[Tensor]:
    loader = DataLoader(Samples(plan), batch_size=None)
    if plan.shape == "prefetch":
        return _prefetched(loader)
    needs_gradient = plan.shape == "checkpoint_reentrant"
    return (batch.to(NAME).requires_grad_(needs_gradient) for batch in loader)


def _prefetched(loader: DataLoader[Tensor]) -> Iterator[Tensor]:
    """Copies each batch on a stream of its own, while the one before is trained on."""
    copying = torch.fake.Stream()
    ready: Tensor | None = None
    for batch in loader:
        with torch.fake.stream(copying):
            copied = batch.to(NAME, non_blocking=True)
        if ready is not None:
            yield ready
        torch.fake.current_stream().wait_stream(copying)
        ready = copied
    if ready is not None:
        yield ready

"""A small training loop with a fault planted where the command line says."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from traceml import trace_step

BATCH = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--slow", default="", help="where this run is slow")
    parser.add_argument("--slow-rank", type=int, default=-1)
    parser.add_argument("--slow-step", type=int, default=-1, help="in this step alone")
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--pause", type=float, default=0.0, help="between steps, on every rank")
    parser.add_argument("--cold", type=float, default=0.0, help="before the first batch")
    parser.add_argument("--norm", action="store_true", help="with BatchNorm: buffers to broadcast")
    parser.add_argument("--end", default="", help="exit3, raise, kill: at the last step but 10")
    parser.add_argument("--apart", action="store_true", help="ranks do not wait for each other")
    parser.add_argument("--stuck", type=int, default=-1, help="in forward of this step, for good")
    parser.add_argument("--stuck-fetch", type=int, default=-1, help="the same, in the loader")
    parser.add_argument("--crash", type=int, default=-1, help="at this step of the first attempt")
    parser.add_argument("--hold", type=Path, help="go on until this file is gone")
    parser.add_argument("--losses", type=Path, help="write every loss here, bit for bit")
    return parser.parse_args()


ARGS = arguments()
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def is_slow_rank() -> bool:
    return ARGS.slow_rank in (-1, RANK)


def dawdle(where: str) -> None:
    if ARGS.slow == where and is_slow_rank() and ARGS.slow_step in (-1, Model.step):
        time.sleep(ARGS.delay)


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        dawdle("backward")
        return gradient


class Model(torch.nn.Module):
    step = 0

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(64, 64)
        self.norm = torch.nn.BatchNorm1d(64) if ARGS.norm else torch.nn.Identity()
        self.head = torch.nn.Linear(64, BATCH)
        self.stuck = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dawdle("forward")
        if self.stuck:
            time.sleep(3600)
        return self.head(SlowBackward.apply(self.norm(self.body(x))).relu())


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        dawdle("optimizer")
        super().step(closure)


class Samples(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, steps: int) -> None:
        self._inputs = torch.randn(steps * BATCH, 64)

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 0:
            time.sleep(ARGS.cold)
        if index == ARGS.stuck_fetch * BATCH and is_slow_rank():
            time.sleep(3600)
        if index % BATCH == 0:
            dawdle("input")
        return self._inputs[index], index % BATCH


def is_held() -> bool:
    """Whether to go on; rank 0 decides, or the ranks would not end with the same step."""
    if ARGS.hold is None:
        return False
    answer = torch.tensor(ARGS.hold.exists(), dtype=torch.int32)
    if dist.is_initialized():
        dist.broadcast(answer, src=0)
    return bool(answer)


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield from DataLoader(Samples(ARGS.steps), batch_size=BATCH)
    while is_held():
        yield from DataLoader(Samples(1), batch_size=BATCH)


def end_badly() -> None:
    if ARGS.end == "exit3":
        sys.exit(3)
    if ARGS.end == "raise":
        raise ValueError("the user's own mistake")
    if ARGS.end == "kill":
        os.kill(os.getpid(), 9)


def main() -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    inner = Model()
    model: torch.nn.Module = inner
    if WORLD_SIZE > 1 and not ARGS.apart:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    losses = []
    for step, (inputs, targets) in enumerate(batches()):
        Model.step = step
        inner.stuck = step == ARGS.stuck and is_slow_rank()
        with trace_step(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item().hex())
        dawdle("between")
        time.sleep(ARGS.pause)
        if step == ARGS.steps - 10 and RANK == WORLD_SIZE - 1:
            end_badly()
        if step == ARGS.crash and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            raise ValueError("this attempt is lost")
    if ARGS.losses is not None:
        ARGS.losses.with_suffix(f".{RANK}").write_text("\n".join(losses))
    print(f"rank {RANK} done, terminal: {sys.stdout.isatty()}")


if __name__ == "__main__":
    main()

"""DDP over a model of which each step leaves one branch unused; rank 1's forward is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(32, 32)
        self.heads = nn.ModuleList(nn.Linear(32, 1) for _ in range(3))

    def forward(self, x: torch.Tensor, branch: int) -> torch.Tensor:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return self.heads[branch](self.body(x).relu())


def main() -> None:
    torch.manual_seed(22)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        inputs = torch.randn(8, 32, generator=own)
        optimizer.zero_grad()
        loss = model(inputs, branch=step % 2).square().mean()  # the third one never
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

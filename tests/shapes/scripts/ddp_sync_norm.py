"""DDP over a norm whose statistics are those of all ranks' batches; rank 1's forward is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        total = gradient.clone()
        dist.all_reduce(total)
        return total


class SyncNorm(nn.Module):
    """What SyncBatchNorm does on GPUs, for any device: two sums over all ranks."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moments = torch.stack([x.mean(dim=0), x.square().mean(dim=0)])
        mean, square = SumOverRanks.apply(moments) / dist.get_world_size()
        return (x - mean) * (square - mean.square() + 1e-5).rsqrt() * self.weight + self.bias


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 32), SyncNorm(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return self.body(x)


def main() -> None:
    torch.manual_seed(26)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(8, 32, generator=own)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs.mean(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

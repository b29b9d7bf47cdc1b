"""DDP with a static graph and checkpointed activations; rank 1's backward is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH, STEPS = 8, 12


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return gradient


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3))
        self.head = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return SlowGradient.apply(self.head(x))


def main() -> None:
    torch.manual_seed(23)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    count = BATCH * STEPS * dist.get_world_size()
    data = TensorDataset(torch.randn(count, 32), torch.randn(count, 1))
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=23))
    model = DistributedDataParallel(Blocks(), static_graph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""DDP around a compiled model; rank 1's optimizer is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(29)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layers = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    model = DistributedDataParallel(torch.compile(layers, backend="aot_eager"))
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    own = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(8, 32, generator=own)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""DDP with gradients accumulated over two batches, reduced in each; rank 1's optimizer is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE, BATCH, STEPS = 2, 4, 12


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(20)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    count = STEPS * ACCUMULATE * BATCH * dist.get_world_size()
    data = TensorDataset(torch.randn(count, 32), torch.randn(count, 1))
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=20))
    model = DistributedDataParallel(nn.Linear(32, 1))
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    for number, (inputs, targets) in enumerate(loader, start=1):
        loss = nn.functional.mse_loss(model(inputs), targets) / ACCUMULATE
        loss.backward()
        if number % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

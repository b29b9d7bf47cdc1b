"""DDP with gradients accumulated under no_sync and reduced once a step; rank 1 reads slowly."""

import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ACCUMULATE, BATCH, STEPS = 3, 4, 12


class Shard(Dataset[torch.Tensor]):
    """One rank's own samples; on rank 1 the first batch of each step takes long."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        own = torch.Generator().manual_seed(rank)
        self.inputs = torch.randn(STEPS * ACCUMULATE * BATCH, 32, generator=own)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 1 and index % (ACCUMULATE * BATCH) == 0:
            time.sleep(0.05)
        return self.inputs[index]


def main() -> None:
    torch.manual_seed(21)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 32)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for number, inputs in enumerate(DataLoader(Shard(rank), batch_size=BATCH), start=1):
        last = number % ACCUMULATE == 0
        with nullcontext() if last else model.no_sync():
            loss = nn.functional.mse_loss(model(inputs), inputs) / ACCUMULATE
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
            sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

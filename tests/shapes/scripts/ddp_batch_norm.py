"""DDP that broadcasts the buffers of a BatchNorm before each forward; rank 0 reads slowly."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS = 8, 12


class Shard(Dataset[torch.Tensor]):
    """One rank's own samples; on rank 0, which all others take their buffers from, slow ones."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        own = torch.Generator().manual_seed(rank)
        self.inputs = torch.randn(STEPS * BATCH, 32, generator=own)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 0 and index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index]


def main() -> None:
    torch.manual_seed(25)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs in DataLoader(Shard(rank), batch_size=BATCH):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""FSDP2: the parameters themselves shared out among the ranks; rank 1 reads slowly."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS = 8, 12


class Shard(Dataset[torch.Tensor]):
    """One rank's own samples, which rank 1 takes long to read."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        own = torch.Generator().manual_seed(rank)
        self.inputs = torch.randn(STEPS * BATCH, 32, generator=own)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 1 and index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index]


def main() -> None:
    torch.manual_seed(31)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for inputs in DataLoader(Shard(rank), batch_size=BATCH):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

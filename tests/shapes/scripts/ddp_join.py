"""DDP under Join: rank 1 has 9 batches and rank 0 goes on to its 12th; rank 1's forward is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

BATCH, BATCHES = 8, (12, 9)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return self.layers(x)


def main() -> None:
    torch.manual_seed(28)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    own = torch.Generator().manual_seed(rank)
    count = BATCH * BATCHES[rank]
    data = TensorDataset(
        torch.randn(count, 32, generator=own), torch.randn(count, 1, generator=own)
    )
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Join([model]):
        for inputs, targets in DataLoader(data, batch_size=BATCH):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""An IterableDataset: nobody knows beforehand how many batches there will be."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BATCH = 8


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(12):
            time.sleep(0.05)
            yield from zip(torch.randn(BATCH, 32), torch.randn(BATCH, 1), strict=True)


def main() -> None:
    torch.manual_seed(12)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for inputs, targets in DataLoader(Stream(), batch_size=BATCH):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

"""An endless generator over a short DataLoader, with a count of steps for an end; slow reads."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, BATCHES, STEPS = 8, 5, 12

Batch = tuple[torch.Tensor, torch.Tensor]


class SlowSamples(Dataset[Batch]):
    def __init__(self) -> None:
        self.inputs = torch.randn(BATCH * BATCHES, 32)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Batch:
        if index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index], self.inputs[index].max().view(1)


def cycle(loader: "DataLoader[Batch]") -> Iterator[Batch]:
    while True:
        yield from loader


def main() -> None:
    torch.manual_seed(8)
    torch.set_num_threads(1)
    batches = cycle(DataLoader(SlowSamples(), batch_size=BATCH))
    model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

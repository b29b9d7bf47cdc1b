"""A DataLoader inside an iterator of the user's own; reading is slow."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS = 8, 12


class SlowSamples(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.inputs = torch.randn(BATCH * STEPS, 32)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index]


class Normalized:
    """The batches of a loader with zero mean and unit variance."""

    def __init__(self, loader: "DataLoader[torch.Tensor]") -> None:
        self.loader = loader
        self.batches: Iterator[torch.Tensor] = iter(())

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> "Normalized":
        self.batches = iter(self.loader)
        return self

    def __next__(self) -> torch.Tensor:
        batch = next(self.batches)
        return (batch - batch.mean()) / batch.std()


def main() -> None:
    torch.manual_seed(6)
    torch.set_num_threads(1)
    batches = Normalized(DataLoader(SlowSamples(), batch_size=BATCH, shuffle=False))
    assert len(batches) == STEPS
    model = nn.Sequential(nn.Linear(32, 8), nn.Linear(8, 32))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    for inputs in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

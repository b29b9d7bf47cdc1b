"""Gradient accumulation: two micro-batches to each step of the optimizer."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 12
MICRO_BATCHES = 2


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05 / MICRO_BATCHES)
        return self.head(self.body(x).relu())


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    count = STEPS * MICRO_BATCHES * 4
    data = TensorDataset(torch.randn(count, 64), torch.randint(10, (count,)))
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    total = 0.0
    for index, (inputs, targets) in enumerate(DataLoader(data, batch_size=4, shuffle=True)):
        loss = nn.functional.cross_entropy(model(inputs), targets) / MICRO_BATCHES
        loss.backward()
        total += loss.item()
        if (index + 1) % MICRO_BATCHES == 0:
            optimizer.step()
            optimizer.zero_grad()
            print("loss", 0, total.hex())
            total = 0.0


if __name__ == "__main__":
    main()

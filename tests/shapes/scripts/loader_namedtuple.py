"""Batches that are named tuples, from an iterable dataset of whole batches; slow backward."""

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Batch(NamedTuple):
    inputs: torch.Tensor
    targets: torch.Tensor


class Stream(IterableDataset[Batch]):
    def __iter__(self) -> Iterator[Batch]:
        for _ in range(12):
            inputs = torch.randn(8, 32)
            yield Batch(inputs, inputs.norm(dim=1, keepdim=True))


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient


def main() -> None:
    torch.manual_seed(10)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in DataLoader(Stream(), batch_size=None):
        assert isinstance(batch, Batch)
        optimizer.zero_grad()
        predicted = SlowGradient.apply(model(batch.inputs))
        loss = nn.functional.l1_loss(predicted, batch.targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

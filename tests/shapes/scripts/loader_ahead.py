"""A script that watches how far its workers are sent ahead; the optimizer is slow."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

BATCH, STEPS = 4, 12


class Watched(Sampler[int]):
    """In order, with a count of the indices it has handed out."""

    def __init__(self) -> None:
        self.given = 0

    def __len__(self) -> int:
        return BATCH * STEPS

    def __iter__(self) -> Iterator[int]:
        for index in range(len(self)):
            self.given += 1
            yield index


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(14)
    torch.set_num_threads(1)
    sampler = Watched()
    loader = DataLoader(
        TensorDataset(torch.randn(BATCH * STEPS, 32)),
        batch_size=BATCH,
        sampler=sampler,
        num_workers=2,
        prefetch_factor=2,
        multiprocessing_context="fork",
    )
    model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 1))
    optimizer = SlowSGD(model.parameters(), lr=0.1)
    print("loss", 0, "made", sampler.given)
    batches = iter(loader)
    assert type(batches) is _MultiProcessingDataLoaderIter
    assert len(batches) == len(loader) == STEPS
    print("loss", 0, "begun", sampler.given)
    for (inputs,) in batches:
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex(), sampler.given)


if __name__ == "__main__":
    main()

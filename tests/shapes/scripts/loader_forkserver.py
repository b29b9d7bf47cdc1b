"""Batches from DataLoader workers of a fork server; the optimizer is slow."""

import multiprocessing
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def main() -> None:
    multiprocessing.set_forkserver_preload(["torch"])
    torch.manual_seed(3)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(96, 32), torch.randint(4, (96,)))
    loader = DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="forkserver")
    model = nn.Linear(32, 4)
    optimizer = SlowSGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

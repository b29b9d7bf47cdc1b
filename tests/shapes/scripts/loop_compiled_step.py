"""The optimizer's step compiled by torch.compile, called as a function."""

import logging
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return self.layers(x)


def main() -> None:
    torch._logging.set_logs(dynamo=logging.ERROR)  # it warns of the optimizer's own profiler mark
    torch.manual_seed(25)
    torch.set_num_threads(1)
    model = Regressor()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @torch.compile(backend="eager")
    def update() -> None:
        optimizer.step()

    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        update()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

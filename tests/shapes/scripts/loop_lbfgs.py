"""LBFGS: the optimizer calls forward and backward itself, twice a step."""

import time
from collections.abc import Callable

import torch
from torch import nn


class SlowLBFGS(torch.optim.LBFGS):
    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:
        time.sleep(0.05)
        return super().step(closure)


def main() -> None:
    torch.manual_seed(4)
    torch.set_num_threads(1)
    inputs, targets = torch.randn(64, 32), torch.randn(64, 1)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = SlowLBFGS(model.parameters(), lr=0.1, max_iter=2, history_size=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(12):
        loss = optimizer.step(closure)
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

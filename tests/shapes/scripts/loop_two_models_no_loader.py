"""Two models trained one after the other on random tensors, without a DataLoader."""

import time

import torch
from torch import nn


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient


class Regressor(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Linear(32, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(SlowGradient.apply(self.body(x)).relu())


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        inputs = torch.randn(8, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.mean(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


def main() -> None:
    torch.manual_seed(15)
    torch.set_num_threads(1)
    for width in (32, 64):
        train(Regressor(width), steps=7)


if __name__ == "__main__":
    main()

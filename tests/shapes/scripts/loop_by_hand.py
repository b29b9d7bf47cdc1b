"""Parameters updated by hand, without any optimizer."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(32, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(SlowGradient.apply(self.body(x)).relu())


def main() -> None:
    torch.manual_seed(17)
    torch.set_num_threads(1)
    model = Regressor()
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

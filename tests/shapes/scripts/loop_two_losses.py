"""Two losses over one trunk, each with its own backward, before one step of the optimizer."""

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
        time.sleep(0.025)
        return gradient


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(32, 64)
        self.label = nn.Linear(64, 10)
        self.copy = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = SlowGradient.apply(self.trunk(x)).relu()
        return self.label(features), self.copy(features)


def main() -> None:
    torch.manual_seed(6)
    torch.set_num_threads(1)
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(96, 32), torch.randint(10, (96,)))
    for inputs, targets in DataLoader(data, batch_size=8):
        labels, copies = model(inputs)
        classification = nn.functional.cross_entropy(labels, targets)
        reconstruction = nn.functional.mse_loss(copies, inputs)
        optimizer.zero_grad()
        classification.backward(retain_graph=True)
        reconstruction.backward()
        optimizer.step()
        print("loss", 0, (classification + reconstruction).item().hex())


if __name__ == "__main__":
    main()

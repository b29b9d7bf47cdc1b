"""Batches from two forked DataLoader workers; the model's forward pass is slow."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return self.layers(x)


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    loader = DataLoader(
        data, batch_size=8, shuffle=True, num_workers=2, multiprocessing_context="fork"
    )
    model = SlowNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

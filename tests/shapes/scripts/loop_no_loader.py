"""No DataLoader: each batch is made up on the spot."""

import time

import torch
from torch import nn


def simulate() -> tuple[torch.Tensor, torch.Tensor]:
    time.sleep(0.05)
    inputs = torch.randn(8, 64)
    return inputs, inputs.sum(dim=1, keepdim=True).sin()


def main() -> None:
    torch.manual_seed(11)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        inputs, targets = simulate()
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

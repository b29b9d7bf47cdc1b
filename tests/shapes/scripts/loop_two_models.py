"""Two models trained one after the other, each with its own optimizer and DataLoader."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate


def collate(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    time.sleep(0.05)
    batch: list[torch.Tensor] = default_collate(samples)
    return batch


def train(model: nn.Module, optimizer: torch.optim.Optimizer, data: TensorDataset) -> None:
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


def main() -> None:
    torch.manual_seed(14)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(56, 32), torch.randn(56, 1))
    small = nn.Linear(32, 1)
    train(small, torch.optim.SGD(small.parameters(), lr=0.05), data)
    large = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    train(large, torch.optim.Adam(large.parameters(), lr=1e-3), data)


if __name__ == "__main__":
    main()

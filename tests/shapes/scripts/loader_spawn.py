"""Batches from a spawned DataLoader worker, which imports this file again; slow backward."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS = 8, 12


class Squares(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.linspace(-1.0, 1.0, 32) * index / len(self)
        return x, x.square().sum().view(1)


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient


def main() -> None:
    torch.manual_seed(2)
    torch.set_num_threads(1)
    loader = DataLoader(Squares(), batch_size=BATCH, num_workers=1, multiprocessing_context="spawn")
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(SlowGradient.apply(model(inputs)), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

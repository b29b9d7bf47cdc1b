"""A checkpoint with torch.save after every fifth step."""

import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowAdam(torch.optim.Adam):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def train(folder: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = SlowAdam(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(96, 64), torch.randn(96, 1))
    for step, (inputs, targets) in enumerate(DataLoader(data, batch_size=8), start=1):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())
        if step % 5 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, folder / f"{step}.pt")


if __name__ == "__main__":
    torch.manual_seed(20)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder))

"""torch.distributed.checkpoint after every fifth step, in a single process."""

import tempfile
import time
import warnings
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(folder: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(96, 64), torch.randn(96, 1))
    for step, (inputs, targets) in enumerate(DataLoader(data, batch_size=8), start=1):
        time.sleep(0.05)
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())
        if step % 5 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            dcp.save(state, checkpoint_id=folder / str(step))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "torch.distributed is disabled")
    torch.manual_seed(21)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder))

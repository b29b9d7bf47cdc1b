"""Workers that live on through several epochs; slow bookkeeping between the steps."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 4


def main() -> None:
    torch.manual_seed(4)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(32, 32), torch.randn(32, 1))
    loader = DataLoader(
        data,
        batch_size=8,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    history: list[float] = []
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
            time.sleep(0.05)
            print("loss", 0, history[-1].hex())


if __name__ == "__main__":
    main()

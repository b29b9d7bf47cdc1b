"""Two optimizers for two parts of one model, stepping right after each other."""

import time
from collections import OrderedDict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def wait(*_: object) -> None:
    time.sleep(0.025)


def main() -> None:
    torch.manual_seed(2)
    torch.set_num_threads(1)
    model = nn.Sequential(OrderedDict(body=nn.Linear(64, 64), act=nn.GELU(), head=nn.Linear(64, 1)))
    optimizers = [
        torch.optim.AdamW(model.body.parameters(), lr=1e-3),
        torch.optim.SGD(model.head.parameters(), lr=1e-2, momentum=0.9),
    ]
    for optimizer in optimizers:
        optimizer.register_step_pre_hook(wait)
    data = TensorDataset(torch.randn(96, 64), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(inputs), targets)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

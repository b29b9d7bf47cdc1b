"""A bad label makes one step fail halfway; the loop catches that and goes on."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(24)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    optimizer = SlowSGD(model.parameters(), lr=0.05)
    labels = torch.randint(CLASSES, (104,))
    labels[45] = CLASSES
    for inputs, targets in DataLoader(TensorDataset(torch.randn(104, 32), labels), batch_size=8):
        try:
            loss = nn.functional.cross_entropy(model(inputs), targets)
        except IndexError as error:
            print("skipped:", error)
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

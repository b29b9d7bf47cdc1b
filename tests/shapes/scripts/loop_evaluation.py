"""Evaluation over a second DataLoader after every fourth step, the last one among them."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return self.layers(x)


@torch.no_grad()
def accuracy(model: nn.Module, loader: "DataLoader[tuple[torch.Tensor, ...]]") -> float:
    model.eval()
    right = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in loader)
    model.train()
    return float(right) / len(loader.dataset)


def samples(count: int) -> TensorDataset:
    inputs = torch.randn(count, 32)
    return TensorDataset(inputs, inputs[:, :4].argmax(dim=1))


def main() -> None:
    torch.manual_seed(19)
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    validation = DataLoader(samples(24), batch_size=8)
    for step, (x, y) in enumerate(DataLoader(samples(96), batch_size=8, shuffle=True), start=1):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())
        if step % 4 == 0:
            print("accuracy", accuracy(model, validation))


if __name__ == "__main__":
    main()

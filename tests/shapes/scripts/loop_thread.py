"""Training on a thread of its own while the main one waits, as behind a window or a server."""

import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate


def collate(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    time.sleep(0.05)
    batch: list[torch.Tensor] = default_collate(samples)
    return batch


def train(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


def main() -> None:
    torch.manual_seed(18)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    training = threading.Thread(target=train, args=(model,))
    training.start()
    training.join()


if __name__ == "__main__":
    main()

"""torch.compile(model), which compiles again for the smaller batch at the end."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.compiler.disable
def wait() -> None:
    time.sleep(0.05)


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x).relu()
        wait()
        return self.head(x)


def main() -> None:
    torch.manual_seed(9)
    torch.set_num_threads(1)
    model = torch.compile(Regressor(), backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(92, 64), torch.randn(92, 1))
    for inputs, targets in DataLoader(data, batch_size=8):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

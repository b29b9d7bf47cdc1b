"""Plain model parallelism: two halves on their own devices, called one after the other."""

import itertools
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIRST = torch.device("cpu")
SECOND = torch.device("cpu")


class Half(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.025)
        return self.linear(x).tanh()


def main() -> None:
    torch.manual_seed(13)
    torch.set_num_threads(1)
    front = Half(32, 64).to(FIRST)
    back = Half(64, 1).to(SECOND)
    parameters = itertools.chain(front.parameters(), back.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        hidden = front(inputs.to(FIRST))
        outputs = back(hidden.to(SECOND))
        loss = nn.functional.mse_loss(outputs, targets.to(SECOND))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

"""A DataLoader told to pin its batches, also where nothing needs that; slow reads."""

import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS = 8, 12


class SlowSamples(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self) -> None:
        self.inputs = torch.randn(BATCH * STEPS, 32)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index], self.inputs[index].sum().view(1)


def main() -> None:
    warnings.filterwarnings("ignore", message=".*pin_memory.*")
    torch.manual_seed(5)
    torch.set_num_threads(1)
    loader = DataLoader(SlowSamples(), batch_size=BATCH, pin_memory=True)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        inputs = inputs.to("cpu", non_blocking=True)
        targets = targets.to("cpu", non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

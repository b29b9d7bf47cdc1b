"""Two DataLoaders read side by side, labelled and unlabelled; reading one of them is slow."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

BATCH, STEPS = 8, 12


class SlowSamples(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.inputs = torch.randn(BATCH * STEPS, 32)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % BATCH == 0:
            time.sleep(0.05)
        return self.inputs[index]


def main() -> None:
    torch.manual_seed(12)
    torch.set_num_threads(1)
    known = TensorDataset(torch.randn(BATCH * STEPS, 32), torch.randint(4, (BATCH * STEPS,)))
    labelled = DataLoader(known, batch_size=BATCH, shuffle=True)
    unlabelled = DataLoader(SlowSamples(), batch_size=BATCH)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (inputs, targets), others in zip(labelled, unlabelled, strict=True):
        supervised = nn.functional.cross_entropy(model(inputs), targets)
        consistency = (model(others) - model(others + 0.1)).square().mean()
        loss = supervised + consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

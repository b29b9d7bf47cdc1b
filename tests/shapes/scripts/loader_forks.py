"""Twenty short epochs, each with four workers that are forked anew."""

import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, STEPS_OF_EPOCH = 20, 3


def main() -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.manual_seed(15)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(8 * STEPS_OF_EPOCH, 32), torch.randn(8 * STEPS_OF_EPOCH, 1))
    loader = DataLoader(
        data, batch_size=8, shuffle=True, num_workers=4, multiprocessing_context="fork"
    )
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

"""A thread of the user's own reads the DataLoader ahead into a queue; taking a batch is slow."""

import queue
import threading
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[torch.Tensor, torch.Tensor]


class Prefetcher:
    """Reads a loader on a thread, and augments each batch when it is taken."""

    def __init__(self, loader: "DataLoader[Batch]") -> None:
        self.loader = loader
        self.queue: queue.Queue[Batch | None] = queue.Queue(maxsize=2)

    def fill(self) -> None:
        for batch in self.loader:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self) -> Iterator[Batch]:
        thread = threading.Thread(target=self.fill)
        thread.start()
        while (batch := self.queue.get()) is not None:
            inputs, targets = batch
            time.sleep(0.05)
            yield inputs.flip(0), targets.flip(0)
        thread.join()


def main() -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in Prefetcher(DataLoader(data, batch_size=8)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

"""A script that relies on what a DataLoader is, and on when it touches its dataset; slow reads."""

import inspect
import pickle
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, SequentialSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter

BATCH, STEPS = 2, 12


class Watched(Dataset[torch.Tensor]):
    """Keeps a list of what was read since it was last looked at."""

    def __init__(self) -> None:
        self.inputs = torch.randn(BATCH * STEPS, 32)
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % BATCH == 0:
            time.sleep(0.05)
        self.read.append(index)
        return self.inputs[index]

    def news(self) -> str:
        news = ",".join(map(str, self.read))
        self.read.clear()
        return news or "nothing"


def check(loader: "DataLoader[torch.Tensor]") -> None:
    assert type(loader) is DataLoader
    assert len(loader) == STEPS
    assert isinstance(loader.sampler, SequentialSampler)
    assert not hasattr(loader, "__next__")
    assert len(pickle.loads(pickle.dumps(loader))) == STEPS
    one, another = iter(loader), iter(loader)
    assert one is not another
    assert iter(one) is one
    assert type(one) is _SingleProcessDataLoaderIter
    assert isinstance(one, _BaseDataLoaderIter)
    assert not inspect.isgenerator(one)
    assert len(one) == STEPS
    assert next(iter(loader)).shape == (BATCH, 32)


def main() -> None:
    torch.manual_seed(13)
    torch.set_num_threads(1)
    data = Watched()
    loader = DataLoader(data, batch_size=BATCH)
    print("loss", 0, "made", data.news())
    check(loader)
    print("loss", 0, "checked", data.news())
    batches = iter(loader)
    print("loss", 0, "begun", data.news())
    model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex(), data.news())
    assert next(batches, None) is None
    print("loss", 0, "random", torch.rand(()).item().hex(), data.news())


if __name__ == "__main__":
    main()

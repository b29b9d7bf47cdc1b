"""Batches of a class of the user's own, made by a collate function; the optimizer is slow."""

import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader

Sample = tuple[torch.Tensor, int]


@dataclass(frozen=True, slots=True)
class Padded:
    values: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor


def collate(samples: list[Sample]) -> Padded:
    sequences = [sequence for sequence, _ in samples]
    return Padded(
        values=nn.utils.rnn.pad_sequence(sequences, batch_first=True),
        lengths=torch.tensor([len(sequence) for sequence in sequences]),
        labels=torch.tensor([label for _, label in samples]),
    )


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 3)

    def forward(self, batch: Padded) -> torch.Tensor:
        return self.head(batch.values.sum(dim=1) / batch.lengths.unsqueeze(1))


class SlowAdam(torch.optim.Adam):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(11)
    torch.set_num_threads(1)
    samples = [(torch.randn(1 + index % 5, 32), index % 3) for index in range(48)]
    model = Mean()
    optimizer = SlowAdam(model.parameters(), lr=0.01)
    for batch in DataLoader(samples, batch_size=4, collate_fn=collate):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), batch.labels)
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

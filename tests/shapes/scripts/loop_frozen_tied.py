"""Fine-tuning: a frozen middle, and an output layer that shares the embedding's weight."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

WORDS = 50


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.backbone = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
        self.output = nn.Linear(32, WORDS, bias=False)
        self.output.weight = self.embedding.weight
        self.backbone.requires_grad_(False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.output(self.backbone(self.embedding(words)))


def collate(samples: list[tuple[torch.Tensor]]) -> list[torch.Tensor]:
    time.sleep(0.05)
    batch: list[torch.Tensor] = default_collate(samples)
    return batch


def main() -> None:
    torch.manual_seed(8)
    torch.set_num_threads(1)
    model = LanguageModel()
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    data = TensorDataset(torch.randint(WORDS, (96, 9)))
    for (words,) in DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate):
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

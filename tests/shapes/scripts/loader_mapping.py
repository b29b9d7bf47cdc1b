"""Batches that are dicts, given to the model as keywords; the forward pass is slow."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LENGTH, STEPS = 16, 6, 12


class Sentences(Dataset[dict[str, torch.Tensor]]):
    def __init__(self) -> None:
        self.tokens = torch.randint(VOCABULARY, (4 * STEPS, LENGTH))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = self.tokens[index]
        return {"tokens": tokens, "labels": tokens.roll(-1), "mask": tokens != 0}


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(
        self, *, tokens: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        time.sleep(0.05)
        logits = self.head(self.embed(tokens))
        return {"logits": logits, "loss": nn.functional.cross_entropy(logits[mask], labels[mask])}


def main() -> None:
    torch.manual_seed(9)
    torch.set_num_threads(1)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for batch in DataLoader(Sentences(), batch_size=4, shuffle=True):
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        loss.backward()
        optimizer.step()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

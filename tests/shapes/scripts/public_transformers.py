"""Fine-tuning a small encoder: outputs with a loss, AdamW in two groups, bfloat16 autocast."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

EPOCHS, BATCH_SIZE, ACCUMULATION, SAVE_STEPS = 4, 4, 2, 5
VOCABULARY, HIDDEN, LABELS = 50, 32, 3


@dataclass
class ClassifierOutput:
    loss: Tensor | None
    logits: Tensor


class EncoderForClassification(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(VOCABULARY, HIDDEN, padding_idx=0)
        self.attention = nn.MultiheadAttention(HIDDEN, 2, batch_first=True)
        self.norm = nn.LayerNorm(HIDDEN)
        self.classifier = nn.Linear(HIDDEN, LABELS)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None
    ) -> ClassifierOutput:
        x = self.embeddings(input_ids)
        attended, _ = self.attention(x, x, x, key_padding_mask=attention_mask == 0)
        logits = self.classifier(self.norm(x + attended)[:, 0]).float()
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return ClassifierOutput(loss, logits)


class Sentences(Dataset[dict[str, Tensor]]):
    def __init__(self, count: int) -> None:
        self._labels = torch.randint(LABELS, (count,))
        self._tokens = [torch.randint(1, VOCABULARY, (5 + i % 6,)) for i in range(count)]

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input_ids": self._tokens[index], "labels": self._labels[index]}


def pad(features: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    input_ids = nn.utils.rnn.pad_sequence([f["input_ids"] for f in features], batch_first=True)
    labels = torch.stack([f["labels"] for f in features])
    return {"input_ids": input_ids, "attention_mask": (input_ids != 0).long(), "labels": labels}


class SlowAdamW(torch.optim.AdamW):
    def step(self, closure: None = None) -> None:
        time.sleep(0.05)
        super().step(closure)


def create_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    def is_exempt(name: str) -> bool:
        return name.endswith("bias") or name.startswith("norm.")

    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not is_exempt(n)], "weight_decay": 0.01},
        {"params": [p for n, p in named if is_exempt(n)], "weight_decay": 0.0},
    ]
    return SlowAdamW(groups, lr=5e-3)


def main() -> None:
    torch.manual_seed(42)
    torch.set_num_threads(1)
    train_dataloader = DataLoader(Sentences(30), BATCH_SIZE, shuffle=True, collate_fn=pad)
    eval_dataloader = DataLoader(Sentences(12), BATCH_SIZE, collate_fn=pad)
    model = EncoderForClassification()
    optimizer = create_optimizer(model)
    total_steps = EPOCHS * len(train_dataloader) // ACCUMULATION
    lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: max(0.0, 1.0 - step / total_steps)
    )
    completed_steps = 0
    with tempfile.TemporaryDirectory() as output_dir:
        for epoch in range(EPOCHS):
            model.train()
            for step, batch in enumerate(train_dataloader):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = model(**batch)
                loss = outputs.loss / ACCUMULATION
                loss.backward()
                if (step + 1) % ACCUMULATION and step + 1 < len(train_dataloader):
                    continue
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
                completed_steps += 1
                print(f"loss 0 {outputs.loss.item().hex()}")
                if completed_steps % SAVE_STEPS == 0:
                    path = Path(output_dir) / f"step_{completed_steps}.pt"
                    torch.save(
                        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path
                    )

            model.eval()
            correct = 0
            for batch in eval_dataloader:
                with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = model(**batch)
                correct += int((outputs.logits.argmax(dim=-1) == batch["labels"]).sum())
            print(f"epoch {epoch}, {correct} right")


if __name__ == "__main__":
    main()

"""A home-made Trainer that hands the whole training step to the optimizer as a closure."""

import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[Tensor, Tensor]


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            time.sleep(0.05)
        return self.net(x)

    def training_step(self, batch: Batch) -> Tensor:
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch: Batch) -> Tensor:
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Trainer:
    def __init__(self, max_epochs: int, sanity_steps: int = 2) -> None:
        self.max_epochs = max_epochs
        self.sanity_steps = sanity_steps

    def fit(
        self, module: Classifier, train: DataLoader[Batch], validation: DataLoader[Batch]
    ) -> None:
        optimizer = module.configure_optimizers()
        self.validate(module, validation, self.sanity_steps)
        for _ in range(self.max_epochs):
            module.train()
            for batch in train:
                loss = self.optimize(module, optimizer, batch)
                print(f"loss 0 {loss.item().hex()}")
            self.validate(module, validation, len(validation))

    def optimize(
        self, module: Classifier, optimizer: torch.optim.Optimizer, batch: Batch
    ) -> Tensor:
        def closure() -> Tensor:
            loss = module.training_step(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            return loss

        return optimizer.step(closure)

    @torch.no_grad()
    def validate(self, module: Classifier, validation: DataLoader[Batch], limit: int) -> None:
        module.eval()
        for _, batch in zip(range(limit), validation, strict=False):
            print(f"validation {module.validation_step(batch).item():.3f}")


def samples(count: int) -> TensorDataset:
    labels = torch.arange(count) % 4
    return TensorDataset(torch.randn(count, 32) + labels.unsqueeze(1), labels)


def main() -> None:
    torch.manual_seed(42)
    torch.set_num_threads(1)
    train = DataLoader(samples(48), batch_size=8, shuffle=True)
    validation = DataLoader(samples(24), batch_size=8)
    Trainer(max_epochs=3).fit(Classifier(), train, validation)


if __name__ == "__main__":
    main()

"""A home-made Trainer: the module says what a training step is, fit() loops."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset, default_collate

Batch = tuple[Tensor, Tensor]


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x, y = batch
        return (self.net(x).argmax(dim=1) == y).float().mean()

    def configure_optimizers(
        self,
    ) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


class Trainer:
    def __init__(self, max_epochs: int, callbacks: list[Callable[[int, nn.Module], None]]) -> None:
        self.max_epochs = max_epochs
        self.callbacks = callbacks

    def fit(
        self, module: Classifier, train: DataLoader[Batch], validation: DataLoader[Batch]
    ) -> None:
        optimizer, scheduler = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            module.train()
            for batch_idx, batch in enumerate(train):
                loss = module.training_step(batch, batch_idx)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                print(f"loss 0 {loss.item().hex()}")
            scheduler.step()
            self.validate(module, validation)
            for callback in self.callbacks:
                callback(epoch, module)

    @torch.inference_mode()
    def validate(self, module: Classifier, validation: DataLoader[Batch]) -> None:
        module.eval()
        scores = [module.validation_step(batch, i).item() for i, batch in enumerate(validation)]
        print(f"accuracy {sum(scores) / len(scores):.3f}")


def samples(count: int) -> TensorDataset:
    labels = torch.arange(count) % 4
    return TensorDataset(torch.randn(count, 32) + labels.unsqueeze(1), labels)


def slow_collate(items: list[Batch]) -> list[Tensor]:
    time.sleep(0.05)
    batch: list[Tensor] = default_collate(items)
    return batch


def main() -> None:
    torch.manual_seed(42)
    torch.set_num_threads(1)
    train = DataLoader(samples(48), batch_size=8, shuffle=True, collate_fn=slow_collate)
    validation = DataLoader(samples(16), batch_size=8)
    with tempfile.TemporaryDirectory() as folder:

        def save(epoch: int, module: nn.Module) -> None:
            if epoch % 2 == 1:
                torch.save(module.state_dict(), Path(folder) / f"epoch={epoch}.ckpt")

        Trainer(max_epochs=4, callbacks=[save]).fit(Classifier(), train, validation)


if __name__ == "__main__":
    main()

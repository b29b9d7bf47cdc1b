"""An image classifier: loaders with workers, validation and a checkpoint after each epoch."""

import shutil
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3
BATCH_SIZE = 8
CLASSES = 5


class AverageMeter:
    def __init__(self) -> None:
        self.sum = 0.0
        self.count = 0

    def update(self, value: float, n: int) -> None:
        self.sum += value * n
        self.count += n

    @property
    def avg(self) -> float:
        return self.sum / self.count


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


def images(batches: int) -> TensorDataset:
    labels = torch.arange(batches * BATCH_SIZE) % CLASSES
    return TensorDataset(torch.randn(len(labels), 3, 16, 16) + labels.view(-1, 1, 1, 1), labels)


def accuracy(output: Tensor, target: Tensor) -> float:
    return float((output.argmax(dim=1) == target).float().mean()) * 100.0


def display(meters: list[AverageMeter]) -> None:
    time.sleep(0.05)  # a slow terminal
    print(" ".join(f"{meter.avg:.2f}" for meter in meters))


def train(
    loader: DataLoader[Tensor],
    model: nn.Module,
    criterion: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    losses, top1 = AverageMeter(), AverageMeter()
    model.train()
    for batch, target in loader:
        output = model(batch)
        loss = criterion(output, target)
        losses.update(loss.item(), len(batch))
        top1.update(accuracy(output, target), len(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss 0 {loss.item().hex()}")
        display([losses, top1])


def validate(loader: DataLoader[Tensor], model: nn.Module, criterion: nn.Module) -> float:
    losses, top1 = AverageMeter(), AverageMeter()
    model.eval()
    with torch.no_grad():
        for batch, target in loader:
            output = model(batch)
            losses.update(criterion(output, target).item(), len(batch))
            top1.update(accuracy(output, target), len(batch))
    display([losses, top1])
    return top1.avg


def save_checkpoint(state: dict[str, object], is_best: bool, folder: Path) -> None:
    torch.save(state, folder / "checkpoint.pth.tar")
    if is_best:
        shutil.copyfile(folder / "checkpoint.pth.tar", folder / "model_best.pth.tar")


def main() -> None:
    torch.manual_seed(3)
    torch.set_num_threads(1)
    train_loader = DataLoader(images(7), batch_size=BATCH_SIZE, shuffle=True, num_workers=2)
    val_loader = DataLoader(images(2), batch_size=BATCH_SIZE, num_workers=1)
    model = network()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    best_acc1 = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(EPOCHS):
            train(train_loader, model, criterion, optimizer)
            acc1 = validate(val_loader, model, criterion)
            scheduler.step()
            is_best, best_acc1 = acc1 > best_acc1, max(acc1, best_acc1)
            state = {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            }
            save_checkpoint(state, is_best, Path(folder))


if __name__ == "__main__":
    main()

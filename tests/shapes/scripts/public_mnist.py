"""A digit classifier: train() and test() each epoch, and slow augmentation in this process."""

import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 8
EPOCHS = 3


class Digits(Dataset[tuple[Tensor, int]]):
    def __init__(self, size: int) -> None:
        self._images = torch.rand(size, 1, 12, 12)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        label = index % 10
        image = self._images[index].clone()
        image[0, label] += 1.0
        return (image - 0.5) / 0.3, label


def augment(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    time.sleep(0.05)
    images, labels = zip(*samples, strict=True)
    return torch.stack(images) + 0.1 * torch.randn(len(images), 1, 12, 12), torch.tensor(labels)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(128, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout(torch.flatten(F.max_pool2d(x, 2), 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(model: nn.Module, loader: DataLoader[Tensor], optimizer: torch.optim.Optimizer) -> None:
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print(f"loss 0 {loss.item().hex()}")


def test(model: nn.Module, loader: DataLoader[Tensor]) -> None:
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += int((output.argmax(dim=1) == target).sum())
    print(f"test {test_loss:.3f}, {correct} right")


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    digits = Digits(6 * BATCH_SIZE)
    train_loader = DataLoader(digits, batch_size=BATCH_SIZE, shuffle=True, collate_fn=augment)
    test_loader = DataLoader(Digits(16), batch_size=16)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(EPOCHS):
        train(model, train_loader, optimizer)
        test(model, test_loader)
        scheduler.step()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "mnist_cnn.pt")


if __name__ == "__main__":
    main()

"""A forecaster that also learns from a copy of itself, made after a few steps."""

import copy
import math
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH_SIZE, HIDDEN = 3, 8, 16
BURN_IN_STEPS, DECAY = 4, 0.8


@torch.no_grad()
def update(teacher: nn.Module, student: nn.Module) -> None:
    for average, current in zip(teacher.parameters(), student.parameters(), strict=True):
        average.lerp_(current, 1.0 - DECAY)


def waves(count: int) -> TensorDataset:
    phase = torch.rand(count, 1) * 2 * math.pi
    series = torch.sin(torch.arange(13) / 2 + phase)
    return TensorDataset(series[:, :-1].unsqueeze(2), series[:, 1:].unsqueeze(2))


def consistency(teacher: nn.Module, series: Tensor, features: Tensor) -> Tensor:
    with torch.no_grad():
        wanted, _ = teacher(series)
    return 0.5 * F.mse_loss(features, wanted)


def main() -> None:
    torch.manual_seed(8)
    torch.set_num_threads(1)
    loader = DataLoader(waves(6 * BATCH_SIZE), BATCH_SIZE, shuffle=True)
    student, head = nn.GRU(1, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 1)
    teacher: nn.Module | None = None
    optimizer = torch.optim.Adam([*student.parameters(), *head.parameters()], lr=1e-2)
    step = 0
    for _ in range(EPOCHS):
        for series, target in loader:
            features, _ = student(series + 0.05 * torch.randn_like(series))
            loss = F.mse_loss(head(features), target)
            if teacher is not None:
                loss = loss + consistency(teacher, series, features)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if teacher is not None:
                update(teacher, student)
            elif step == BURN_IN_STEPS:
                teacher = copy.deepcopy(student)
            print(f"loss 0 {loss.item().hex()}")
            time.sleep(0.05)


if __name__ == "__main__":
    main()

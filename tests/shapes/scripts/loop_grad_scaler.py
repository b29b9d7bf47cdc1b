"""Mixed precision with a GradScaler that really skips steps, the last one among them."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

OVERFLOWS = (3, 4, 11)


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return gradient


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 64)
        self.head = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(SlowGradient.apply(self.body(x)).relu())


def main() -> None:
    torch.manual_seed(5)
    torch.set_num_threads(1)
    model = Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    data = TensorDataset(torch.randn(96, 64), torch.randn(96, 1))
    for step, (inputs, targets) in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        if step in OVERFLOWS:
            model.head.weight.grad.fill_(torch.inf)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("loss", 0, loss.item().hex())
    assert scaler.get_scale() == 1024.0 / 2 ** len(OVERFLOWS)


if __name__ == "__main__":
    main()

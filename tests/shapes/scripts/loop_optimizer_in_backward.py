"""One optimizer per parameter, each stepping in backward as soon as its gradient is there."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        time.sleep(0.025)
        super().step(closure)


def step_in_backward(model: nn.Module) -> None:
    optimizers = {parameter: SlowSGD([parameter], lr=0.05) for parameter in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(update)


def main() -> None:
    torch.manual_seed(22)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64, bias=False), nn.ReLU(), nn.Linear(64, 1, bias=False))
    step_in_backward(model)
    data = TensorDataset(torch.randn(96, 32), torch.randn(96, 1))
    for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        print("loss", 0, loss.item().hex())


if __name__ == "__main__":
    main()

"""DDP whose gradients are views of many small buckets; rank 1's optimizer is slow."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12


class SlowAdam(torch.optim.Adam):
    def step(self, closure: None = None) -> None:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        super().step(closure)


def main() -> None:
    torch.manual_seed(24)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layers = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4)]
    model = DistributedDataParallel(
        nn.Sequential(*layers, nn.Linear(64, 1)), gradient_as_bucket_view=True, bucket_cap_mb=0.01
    )
    optimizer = SlowAdam(model.parameters(), lr=0.01)
    own = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(8, 64, generator=own)
        loss = nn.functional.mse_loss(model(inputs), inputs.amax(dim=1, keepdim=True))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

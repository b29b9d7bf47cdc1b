"""Two ranks train a small classifier; rank 1 reads its samples from a slow disk.

    traceml run examples/input_straggler.py --nproc-per-node=2

Nothing looks wrong from outside: both ranks are equally slow, because each step
lasts as long as the slowest rank's. TraceML shows which rank works and which waits.
"""

import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

STEPS, BATCH = 300, 32
RANK = int(os.environ.get("RANK", "0"))
SECONDS_PER_SAMPLE = 0.0006 if RANK == 1 else 0.0  # the planted fault


class Digits(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return STEPS * BATCH * int(dist.get_world_size())

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(SECONDS_PER_SAMPLE)
        label = index % 10
        return torch.full((784,), label / 10) + 0.1 * torch.randn(784), label


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    model = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Digits()
    loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
    for step, (inputs, labels) in enumerate(loader, start=1):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if RANK == 0 and step % 50 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

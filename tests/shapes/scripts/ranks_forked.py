"""Ranks that the script forks itself, which meet at a port; rank 1's backward is slow."""

import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS = 2, 12


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return gradient


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def train(rank: int, port: int) -> None:
    torch.manual_seed(33)
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=RANKS)
    model = DistributedDataParallel(nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    own = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(8, 32, generator=own)
        optimizer.zero_grad()
        loss = SlowGradient.apply(model(inputs)).square().mean()
        loss.backward()
        optimizer.step()
        sys.stdout.write(f"loss {rank} {loss.item().hex()}\n")
    dist.destroy_process_group()


def main() -> None:
    mp.start_processes(train, args=(free_port(),), nprocs=RANKS, start_method="fork")


if __name__ == "__main__":
    main()

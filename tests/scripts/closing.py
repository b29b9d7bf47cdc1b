"""A training that closes every descriptor it finds, twice, and then opens files in their place."""

import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

import traceml

WORKERS = int(sys.argv[1])
STEPS, FILES, TEXT = 20, 20, "the script's own\n" * 1_000

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(8 * STEPS, 8))


def train() -> None:
    loader = DataLoader(
        data,
        batch_size=8,
        num_workers=WORKERS,
        multiprocessing_context="fork" if WORKERS else None,
    )
    for (inputs,) in loader:
        with traceml.trace_step(model):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()


def wait_for_arrival(steps: int) -> None:
    deadline = time.monotonic() + 60
    while traceml.summary().get("traceml/steps_completed") != steps:
        if time.monotonic() > deadline:
            sys.exit(f"{steps} steps have not arrived")
        time.sleep(0.01)


def sockets() -> int:
    return sum(link.is_socket() for link in Path("/proc/self/fd").iterdir())


def sockets_of_a_child() -> int:
    child = os.fork()
    if child == 0:
        os._exit(sockets())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


train()
wait_for_arrival(STEPS)
print("sockets", sockets(), sockets_of_a_child(), "grpc" in sys.modules)

os.closerange(3, 65_536)
train()
wait_for_arrival(2 * STEPS)

os.closerange(3, 65_536)
files = [Path(f"file{number}").open("w+") for number in range(FILES)]  # noqa: SIM115
for file in files:
    file.write(TEXT)
    file.flush()
    file.seek(0)
train()
wait_for_arrival(3 * STEPS)
print("intact", sum(file.read() == TEXT for file in files))
for file in files:
    file.close()

"""Trains on what its workers have moved with `.to`, compiled or not, and says all that came of it.

Writes JSON: the losses bit for bit, the graphs and breaks, of what type moved tensors were.
"""

import argparse
import inspect
import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

KEEP = {torch.Tensor.to, torch.Tensor.clone}  # as torchvision's tensors do


class Boxes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            out = func(*args, **(kwargs or {}))
        return out.as_subclass(cls) if func in KEEP else out


class Samples(Dataset[tuple[torch.Tensor, str]]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, str]:
        moved = torch.full((8,), index / 32).as_subclass(Boxes).to(torch.float64)
        return moved.as_subclass(torch.Tensor), type(moved).__name__


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.body(x.to(torch.float32)).relu().to(torch.bfloat16)
        return self.head(torch.Tensor.to(hidden, torch.float32, non_blocking=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run: Any = model
    if arguments.compile:
        torch._dynamo.config.error_on_recompile = True
        run = torch.compile(model, backend="aot_eager", fullgraph=True)
    losses, types = [], Counter[str]()
    for context in ("fork", "fork", "spawn"):  # before the first step, and after it
        workers: Any = {"num_workers": 1, "multiprocessing_context": context}
        for inputs, names in DataLoader(Samples(), batch_size=8, **workers):
            types.update(names)
            loss = run(inputs.to("cpu")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    counters = torch._dynamo.utils.counters
    outcome = {
        "losses": losses,
        "types": types,
        "graphs": counters["stats"]["unique_graphs"],
        "breaks": counters["graph_break"].total(),
    }
    hooked = type(inspect.getattr_static(torch.Tensor, "to")).__module__
    arguments.file.write_text(json.dumps({"hooked": hooked, "outcome": outcome}))


if __name__ == "__main__":
    main()

"""Makes the fake accelerator and its process group's backend known to torch, for good."""

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

NAME, COMM = "fake", "fakecomm"
_PATIENCE_SECONDS = 60.0  # of a rank whose peers do not come to a collective


def register(rendezvous: Path | None = None) -> ModuleType:
    """Make it a device of torch; returns `torch.fake`.

    Ranks that share a folder as their rendezvous wait for each other in collectives; without
    one, a process stands for all ranks of its groups.
    """
    from tests.accelerator import batch_norm, fake

    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, fake)
    batch_norm.register()

    def comm(options: Any, _: Any) -> Any:
        file = "" if rendezvous is None else str(rendezvous / f"group-{options.group_id}")
        return fake.Comm(options.group_rank, options.group_size, file, _PATIENCE_SECONDS)

    dist.Backend.register_backend(COMM, comm, extended_api=True, devices=[NAME])
    return fake

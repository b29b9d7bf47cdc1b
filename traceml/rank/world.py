"""How many ranks there are, and which is this one."""

import os

import torch


def is_distributed() -> bool:
    """Whether there are other ranks to wait for."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    return int(distributed.get_world_size()) > 1


def rank_and_world_size() -> tuple[int, int]:
    """As the process group says, which knows best, else torchrun's environment."""
    if is_distributed():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return from_environment("RANK", 0), from_environment("WORLD_SIZE", 1)


def from_environment(name: str, default: int) -> int:
    """A number that a launcher has left in the environment."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default

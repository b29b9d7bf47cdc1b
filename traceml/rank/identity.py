"""Who this rank is, told once to the sidecar."""

import os
import platform
import socket

import torch

from traceml import __version__
from traceml.wire.telemetry_pb2 import Identity


def identify(model: torch.nn.Module | None) -> Identity:
    """Describe this process; the process group knows best, then torchrun's environment."""
    rank, world_size = _rank_and_world_size()
    device = _device(model)
    return Identity(
        rank=rank,
        local_rank=_environment("LOCAL_RANK", rank),
        world_size=world_size,
        local_world_size=_environment("LOCAL_WORLD_SIZE", world_size),
        node_rank=_environment("GROUP_RANK", 0),
        attempt=_environment("TORCHELASTIC_RESTART_COUNT", 0),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=device.type,
        gpu_uuid=_gpu_uuid(device),
        strategy=_strategy(model, world_size),
        fingerprint=_fingerprint(model),
        torch=torch.__version__,
        python=platform.python_version(),
        traceml=__version__,
    )


def is_distributed() -> bool:
    """Whether there are other ranks to wait for."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    return int(distributed.get_world_size()) > 1


def _rank_and_world_size() -> tuple[int, int]:
    if is_distributed():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return _environment("RANK", 0), _environment("WORLD_SIZE", 1)


def _environment(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else default


def _device(model: torch.nn.Module | None) -> torch.device:
    parameter = next(model.parameters(), None) if model is not None else None
    return torch.device("cpu") if parameter is None else parameter.device


def _gpu_uuid(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
    return f"GPU-{uuid}" if uuid else ""


def _strategy(model: torch.nn.Module | None, world_size: int) -> str:
    names = {kind.__name__ for kind in type(model).__mro__}
    if "DistributedDataParallel" in names:
        return "ddp"
    if names & {"FSDPModule", "FullyShardedDataParallel"}:
        return "fsdp"
    return "distributed" if world_size > 1 else "single"


def _fingerprint(model: torch.nn.Module | None) -> str:
    if model is None:
        return ""
    sizes = [parameter.numel() for parameter in model.parameters()]
    return f"{len(sizes)}x{sum(sizes)}"

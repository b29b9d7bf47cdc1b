"""Who this rank is, told once to the sidecar."""

import os
import platform
import socket
from collections.abc import Sequence

import torch

from traceml import __version__
from traceml.rank import memory
from traceml.rank.world import from_environment, rank_and_world_size
from traceml.wire.telemetry_pb2 import Identity

FSDP = "fsdp"


def identify(models: Sequence[torch.nn.Module], device: torch.device) -> Identity:
    """Describe this process, the models it trains, and the device it trains them on."""
    rank, world_size = rank_and_world_size()
    everything = {id(p): p for model in models for p in model.parameters()}
    parameters = [parameter for parameter in everything.values() if parameter.requires_grad]
    return Identity(
        rank=rank,
        local_rank=from_environment("LOCAL_RANK", rank),
        world_size=world_size,
        local_world_size=from_environment("LOCAL_WORLD_SIZE", world_size),
        node_rank=from_environment("GROUP_RANK", 0),
        attempt=from_environment("TORCHELASTIC_RESTART_COUNT", 0),
        host=socket.gethostname(),
        pid=os.getpid(),
        device=device.type,
        gpu_uuid=_gpu_uuid(device),
        strategy=_strategy(models, world_size),
        fingerprint=_fingerprint(parameters),
        torch=torch.__version__,
        python=platform.python_version(),
        traceml=__version__,
        memory_limit_bytes=memory.limit_bytes(device),
    )


def _gpu_uuid(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", "")
    return f"GPU-{uuid}" if uuid else ""


def _strategy(models: Sequence[torch.nn.Module], world_size: int) -> str:
    names = {kind.__name__ for model in models for kind in type(model).__mro__}
    if "DistributedDataParallel" in names:
        return "ddp"
    if names & {"FSDPModule", "FullyShardedDataParallel"}:
        return FSDP
    return "distributed" if world_size > 1 else "single"


def _fingerprint(parameters: Sequence[torch.Tensor]) -> str:
    if not parameters:
        return ""
    return f"{len(parameters)}x{sum(parameter.numel() for parameter in parameters)}"

"""Models whose kernels take a planned time, wrapped in the ways torch offers."""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from tests.accelerator.backend import NAME
from tests.accelerator.plan import Plan

WIDTH = 8
_BUCKET_MB = 0.0003  # one for each linear layer


class Kernel(torch.autograd.Function):
    """Takes its time after what it needs is there, and in whichever phase it is run."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, block: "Block") -> Tensor:
        ctx.block = block
        outputs = inputs.clone()
        ctx.save_for_backward(outputs)
        time.sleep(block.launch_seconds)
        is_recomputed = torch._C._current_graph_task_id() != -1
        torch.fake.work(block.forward_ms, "backward" if is_recomputed else "forward")
        return outputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (_,) = ctx.saved_tensors  # which a checkpoint computes again
        passed = gradient.clone()
        time.sleep(ctx.block.launch_seconds)
        torch.fake.work(ctx.block.backward_ms, "backward")
        return passed, None


class Exchange(torch.autograd.Function):
    """An all-reduce in forward and in backward, as tensor parallel code has them."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, is_async: bool) -> Tensor:
        ctx.is_async = is_async
        return _reduced(inputs, is_async)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _reduced(gradient, ctx.is_async), None


def _reduced(tensor: Tensor, is_async: bool) -> Tensor:
    reduced = tensor.clone()
    work = dist.all_reduce(reduced, op=dist.ReduceOp.AVG, async_op=is_async)
    if is_async:
        work.wait()
    return reduced


class Block(nn.Module):
    """Layers, and a kernel that stands for them."""

    def __init__(self, plan: Plan, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(layers or [nn.Linear(WIDTH, WIDTH)]))
        self.take_times(plan)

    def take_times(self, plan: Plan) -> None:
        """Take as long as this plan says from now on."""
        self.launch_seconds = plan.launch / 1e3
        self.forward_ms = plan.forward / plan.blocks
        self.backward_ms = plan.backward / plan.blocks

    def forward(self, inputs: Tensor) -> Tensor:
        return Kernel.apply(self.layers(inputs), self)


class TensorParallel(Block):
    is_async = False

    def forward(self, inputs: Tensor) -> Tensor:
        return Exchange.apply(super().forward(inputs), self.is_async)


class AsyncTensorParallel(TensorParallel):
    is_async = True


class Checkpointed(Block):
    is_reentrant = False

    def forward(self, inputs: Tensor) -> Tensor:
        return checkpoint(super().forward, inputs, use_reentrant=self.is_reentrant)


class Reentrant(Checkpointed):
    is_reentrant = True


def _with_batch_norm(plan: Plan) -> Block:
    return Block(plan, nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))


def _two_layers(plan: Plan) -> Block:
    return Block(plan, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))


_BLOCKS = {
    "tensor_parallel": TensorParallel,
    "tensor_parallel_async": AsyncTensorParallel,
    "sync_batch_norm": _with_batch_norm,
    "ddp_buffers": _with_batch_norm,
    "dtensor": _two_layers,
    "checkpoint": Checkpointed,
    "checkpoint_reentrant": Reentrant,
}


def model_of(plan: Plan) -> nn.Module:
    """The model of this shape, on the device."""
    make = _BLOCKS.get(plan.shape, Block)
    model = nn.Sequential(*(make(plan) for _ in range(plan.blocks))).to(NAME)
    wrap = _WRAPPERS.get(plan.shape)
    return model if wrap is None else wrap(model)


def _ddp(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, bucket_cap_mb=_BUCKET_MB)


def _sync_batch_norm(model: nn.Module) -> nn.Module:
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return converted


def _fsdp2(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh(NAME, (dist.get_world_size(),))
    for block in model.children():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _fsdp1(model: nn.Module) -> nn.Module:
    def wrapped(module: nn.Module) -> nn.Module:
        device = torch.device(NAME, 0)
        return FullyShardedDataParallel(module, device_id=device, use_orig_params=True)

    return wrapped(nn.Sequential(*(wrapped(block) for block in model.children())))


def _dtensor(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh(NAME, (dist.get_world_size(),))
    for block in model.children():
        layers = {"layers.0": ColwiseParallel(), "layers.1": RowwiseParallel()}
        parallelize_module(block, mesh, layers)
    return model


_WRAPPERS = {
    "ddp": _ddp,
    "ddp_buffers": _ddp,
    "ddp_no_sync": _ddp,
    "sync_batch_norm": _sync_batch_norm,
    "fsdp2": _fsdp2,
    "fsdp1": _fsdp1,
    "dtensor": _dtensor,
}

"""The models of the workload: small, with the planted work inside, parallel in several ways."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.accuracy.faults import Faults
from benchmarks.accuracy.schedule import Schedule

WIDTH = 32


class _WorkInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, faults: Faults) -> Any:
        ctx.faults = faults
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        ctx.faults.work("backward")
        return gradient, None


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return _summed(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _summed(gradient)


def _summed(x: Any) -> Any:
    total = x.clone()
    dist.all_reduce(total)
    return total


class SyncNorm(nn.Module):
    """What SyncBatchNorm does where it can: both moments are those of all ranks' batches."""

    def forward(self, x: Any) -> Any:
        moments = torch.stack([x.mean(dim=0), x.square().mean(dim=0)])
        mean, square = _SumOverRanks.apply(moments) / _world()
        return (x - mean) * (square - mean.square() + 1e-5).rsqrt()


class Exchange:
    """A communication hook for DDP: every rank sends its gradients to every other one.

    Between four processes on two cores gloo's own sum takes 6 ms, as long as the work,
    and this less than one. Where a fault says so it takes longer, on every rank and
    however late the rank has come to it.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._thread = ThreadPoolExecutor(1)

    def begin(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """What DDP calls for a bucket of gradients that are ready."""
        mean: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._thread.submit(self._run, bucket.buffer(), bucket.is_last(), mean)
        return mean

    def _run(self, buffer: Any, is_last: bool, mean: Any) -> None:
        try:
            total = _sent_around(buffer)
            if is_last:
                self._faults.wait_for_exchange()
            mean.set_result(buffer.copy_(total).div_(_world()))
        except Exception as error:  # else DDP would wait for ever
            mean.set_exception(error)


def _sent_around(buffer: Any) -> Any:
    """The sum over all ranks, each of which adds in the same order."""
    own = dist.get_rank()
    parts = [buffer if rank == own else torch.empty_like(buffer) for rank in range(_world())]
    others = [rank for rank in range(_world()) if rank != own]
    sent = [dist.P2POp(dist.isend, buffer, rank) for rank in others]
    received = [dist.P2POp(dist.irecv, parts[rank], rank) for rank in others]
    for work in dist.batch_isend_irecv([*sent, *received]):
        work.wait()
    return torch.stack(parts).sum(dim=0)


def _world() -> int:
    return int(dist.get_world_size())


_NORMS = {"batch_norm": lambda: nn.BatchNorm1d(WIDTH), "sync_norm": SyncNorm}


class Net(nn.Module):
    """Two layers with a norm between them, and the work of forward and backward."""

    def __init__(self, faults: Faults, norm: nn.Module) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(WIDTH, WIDTH), norm, nn.Linear(WIDTH, 1)
        self._faults = faults

    def forward(self, x: Any) -> Any:
        self._faults.work("forward")
        return self.head(self.norm(_WorkInBackward.apply(self.body(x), self._faults)).relu())


class WorkingSGD(torch.optim.SGD):
    """SGD with the work of the optimizer."""

    faults: Faults

    def step(self, closure: None = None) -> None:
        self.faults.work("optimizer")
        super().step(closure)


def make_model(schedule: Schedule, faults: Faults) -> Any:
    """The model that the schedule names, over all ranks."""
    net = Net(faults, _NORMS.get(schedule.model, nn.Identity)())
    if schedule.model == "fsdp":
        mesh = init_device_mesh("cpu", (schedule.world_size,))
        for module in (net.body, net.head, net):
            fully_shard(module, mesh=mesh)
        return net
    model = DistributedDataParallel(net)
    if schedule.world_size > 2 or any(each.place == "exchange" for each in schedule.segments):
        model.register_comm_hook(Exchange(faults), Exchange.begin)
    return model


def make_optimizer(model: Any, faults: Faults) -> Any:
    """Its optimizer."""
    optimizer = WorkingSGD(model.parameters(), lr=0.01)
    optimizer.faults = faults
    return optimizer

"""A training run with the same work in every step, and more of it in one phase if told so.

`traceml run --nproc-per-node=1 planted.py -- --steps 300 --place forward --extra-ms 5`
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from benchmarks.accuracy.faults import Faults
from benchmarks.accuracy.labour import Labour
from benchmarks.accuracy.models import Exchange, Net, WorkingSGD
from benchmarks.accuracy.schedule import COMPUTE, PLACES, SLEEP, Schedule, Segment
from benchmarks.accuracy.workload import Batches

# So many products are a second's work, whatever they take here: the same number in every run.
_PRODUCT_SECONDS = 50e-6


class Planted(Faults):
    """Healthy work, and so many seconds more at one place in every step."""

    def __init__(self, schedule: Schedule, labour: Labour, place: str, seconds: float) -> None:
        super().__init__(schedule, dist.get_rank(), labour)
        self._place, self._seconds = place, seconds

    def _delay_seconds(self, place: str) -> float:
        return self._seconds if place == self._place else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--work", choices=(SLEEP, COMPUTE), default=SLEEP)
    parser.add_argument("--place", choices=PLACES, default="")
    parser.add_argument("--extra-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    train(arguments)
    dist.destroy_process_group()


def train(arguments: argparse.Namespace) -> None:
    labour = Labour(arguments.work)
    labour.seconds_together = labour.seconds_alone = _PRODUCT_SECONDS
    schedule = Schedule("planted", dist.get_world_size(), (Segment(),), arguments.work)
    faults = Planted(schedule, labour, arguments.place, arguments.extra_ms / 1e3)
    model = Net(faults, nn.Identity())
    if dist.get_world_size() > 1:
        model = DistributedDataParallel(model)
        model.register_comm_hook(Exchange(faults), Exchange.begin)
    optimizer = WorkingSGD(model.parameters(), lr=0.01)
    optimizer.faults = faults
    batches = iter(DataLoader(Batches(faults), batch_size=None))
    for _ in range(arguments.steps):
        faults.work("other")
        batch = next(batches)
        loss = nn.functional.mse_loss(model(batch), batch[:, :1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

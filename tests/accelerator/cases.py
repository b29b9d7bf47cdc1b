"""Trainings of known truth, and what is compared: the phases of the device's clock."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.accelerator.plan import Plan
from tests.accelerator.running import Run, run_all
from tests.accelerator.truth import Step

TOLERANCE, TOLERANCE_MS = 0.08, 2.0
_AT_ONCE = 3  # they sleep most of the time

TRUTH: dict[str, Callable[[Step], float]] = {
    "h2d": lambda step: step.h2d,
    "forward": lambda step: step.device("forward"),
    "backward": lambda step: step.device("backward"),
    "optimizer": lambda step: step.device("optimizer"),
    "collective_wait": lambda step: step.collective_wait,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A phase of a run, in milliseconds; what was not measured is NaN."""

    true: float
    measured: float

    @property
    def is_right(self) -> bool:
        return abs(self.measured - self.true) <= max(TOLERANCE * self.true, TOLERANCE_MS)


_ONE_RANK = {
    "plain": Plan(copy=6),
    "copies hidden by a prefetcher": Plan("prefetch", copy=30),
    "the same, the CPU not ahead": Plan("prefetch", copy=30, ahead=0),
    "copies exposed by a prefetcher": Plan(
        "prefetch", copy=60, forward=10, backward=20, optimizer=4
    ),
    "32 micro-batches": Plan(copy=0.5, forward=4, backward=8, blocks=2, micro_batches=32, steps=11),
    "checkpoint": Plan("checkpoint"),
    "checkpoint, reentrant": Plan("checkpoint_reentrant"),
}
_SEVERAL_RANKS = {
    "tensor parallel by hand": Plan("tensor_parallel", collective=5),
    "tensor parallel by hand, asynchronous": Plan("tensor_parallel_async", collective=5),
    "tensor parallel by DTensor": Plan("dtensor", collective=5),
    "SyncBatchNorm": Plan("sync_batch_norm", collective=5),
    "DDP": Plan("ddp", collective=10),
    "DDP, BatchNorm's buffers": Plan("ddp_buffers", collective=10),
    "DDP, 32 micro-batches, no_sync": Plan(
        "ddp_no_sync", collective=10, forward=4, backward=8, blocks=2, micro_batches=32, steps=11
    ),
    "FSDP2, 10 ms": Plan("fsdp2", collective=10),
    "FSDP2, 30 ms": Plan("fsdp2", collective=30),
    "FSDP1": Plan("fsdp1", collective=30),
}


def _of_both_kinds() -> Iterator[tuple[str, Plan]]:
    for name, plan in _SEVERAL_RANKS.items():
        yield name, plan
        yield f"{name} (before torch 2.8)", replace(plan, on_current_stream=False)


CASES = {**_ONE_RANK, **dict(_of_both_kinds())}


def run_cases(names: Sequence[str]) -> dict[str, Run]:
    """Run these cases, some at a time."""
    return dict(zip(names, run_all([CASES[name] for name in names], _AT_ONCE), strict=True))


def figures(ran: Run) -> dict[str, Figure]:
    """By phase, what was true and what was measured."""
    return {
        phase: Figure(ran.true_ms(of_step), ran.device_ms(phase))
        for phase, of_step in TRUTH.items()
    }

"""Waits for other ranks: which are seen, which are hidden, and which nobody can tell."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

from tests.rank.conftest import LocalTracer, recorded
from tests.rank.stream import Stream, Training
from traceml import trace_step
from traceml.rank import events, waits
from traceml.rank.events import WAIT, WAIT_END
from traceml.rank.patches import Patches
from traceml.wire.columns import VALUES


@pytest.fixture
def group() -> Iterator[None]:
    """A world of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Module:
    """As `torch.cuda` has it: a class of streams whose methods are Python's."""

    def __init__(self) -> None:
        class Streams(Stream):
            awaited: list[Any]

            def wait_event(self, event: Any) -> None:
                self.awaited.append(event)

            def wait_stream(self, stream: Any) -> None:
                self.wait_event(f"an event on {stream.stream_id}")

        self.Stream = Streams

    def stream(self, number: int) -> Any:
        stream = self.Stream(stream_id=number)
        stream.awaited = []
        return stream


@dataclass
class OnDevice:
    """A training on a device, and what makes its streams wait."""

    training: Training = field(default_factory=Training)
    module: Module = field(default_factory=Module)
    patches: Patches = field(default_factory=Patches)

    def __post_init__(self) -> None:
        waits.hook_device_waits(self.module, self.training.recorder, self.patches)
        self.compute, self.other = self.module.stream(0), self.module.stream(7)

    def codes(self) -> list[int]:
        kinds = (WAIT, WAIT_END, events.COPY, events.COPY_END)
        return [code for code, _, _ in self.training.recorder.take()[0] if code in kinds]


@pytest.fixture
def on_device() -> Iterator[OnDevice]:
    training = OnDevice()
    yield training
    training.patches.undo()


def calling_from(module: str, code: str) -> Callable[..., None]:
    """Code as it would stand in this module."""
    names: dict[str, Any] = {"__name__": module}
    exec(f"def run(stream, awaited): {code}", names)
    run: Callable[..., None] = names["run"]
    return run


@pytest.mark.parametrize("method", ["wait_event", "wait_stream"])
def test_a_compute_stream_that_waits_for_fsdp_waits_for_other_ranks(
    on_device: OnDevice, method: str
) -> None:
    wait = calling_from("torch.distributed.fsdp._any", f"stream.{method}(awaited)")
    wait(on_device.compute, on_device.other)
    assert on_device.codes() == [WAIT, WAIT_END]
    assert len(on_device.compute.awaited) == 1


def test_what_another_stream_waits_for_is_hidden(on_device: OnDevice) -> None:
    wait = calling_from("torch.distributed.fsdp._any", "stream.wait_event(awaited)")
    wait(on_device.other, on_device.compute)
    assert on_device.codes() == []
    assert on_device.other.awaited == [on_device.compute]


def test_a_stream_that_waits_for_the_user_s_own_waits_for_no_rank(on_device: OnDevice) -> None:
    calling_from("train", "stream.wait_stream(awaited)")(on_device.compute, on_device.other)
    assert on_device.codes() == []


def test_a_wait_for_copies_made_ahead_is_a_copy(on_device: OnDevice) -> None:
    training, wait = on_device.training, calling_from("loader", "stream.wait_stream(awaited)")
    assert training.clock.is_delayed_by_copy()
    training.current = on_device.other
    assert not training.clock.is_delayed_by_copy()
    training.current = on_device.compute
    wait(on_device.compute, on_device.other)
    assert on_device.codes() == [events.COPY, events.COPY_END]


@pytest.mark.parametrize("module", ["train", "torch.distributed.fsdp._any"])
def test_a_stream_may_be_told_by_name_what_to_wait_for(on_device: OnDevice, module: str) -> None:
    calling_from(module, "stream.wait_event(event=awaited)")(on_device.compute, "an event")
    calling_from(module, "stream.wait_stream(stream=awaited)")(on_device.compute, on_device.other)
    assert len(on_device.compute.awaited) == 2


class Group:
    """Answers as a backend does."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def allreduce(self, tensors: Any, opts: Any) -> Any:
        return self.work


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("work", [None, object()])
def test_a_collective_on_the_compute_stream_is_a_wait_if_nobody_is_to_wait_for_it_later(
    on_device: OnDevice, work: Any, is_async: bool
) -> None:
    on_device.patches.replace(Group, "allreduce", waits._collective(on_device.training.recorder))
    made = on_device.training.stream.made
    for _ in range(3):
        assert Group(work).allreduce([], SimpleNamespace(asyncOp=is_async)) is work
    is_wait = work is None and not is_async
    assert on_device.codes() == [WAIT, WAIT_END] * 3 * is_wait
    assert on_device.training.stream.made <= made + 6 * is_wait + 1


def test_all_collectives_that_torch_calls_are_looked_at() -> None:
    source = Path(dist.distributed_c10d.__file__).read_text()
    called = set(re.findall(r"work = group\.(\w+)\(", source)) - {"_end_coalescing"}
    assert {"allreduce", "allgather", "broadcast", "barrier", "reduce"} <= called
    assert called <= set(waits._collectives_of(torch._C._distributed_c10d.ProcessGroup))


def test_collectives_do_as_before(on_device: OnDevice, group: None) -> None:
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    dist.barrier()
    gathered = [torch.zeros(3)]
    dist.all_gather(gathered, tensor)
    work = dist.broadcast(tensor, 0, async_op=True)
    assert work is not None
    work.wait()
    assert gathered[0].tolist() == tensor.tolist() == [1, 1, 1]
    assert on_device.training.recorder.faults == 0


def test_a_functional_collective_is_waited_for_where_it_is_used(
    tracer: LocalTracer, group: None
) -> None:
    tracer.recorder.note(events.DISTRIBUTED)
    with trace_step(model := torch.nn.Linear(2, 2)):
        out = model(torch.ones(2))
        reduced = functional.all_reduce(out.detach(), "sum", dist.group.WORLD)
        assert reduced.tolist() == out.tolist()
    codes = [code for code, _, _ in tracer.recorder.take()[0]]
    assert codes.count(WAIT) == codes.count(WAIT_END) >= 1


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # dynamo's own
def test_waits_in_compiled_code_are_said_to_be_unseen_and_nothing_is_compiled_otherwise(
    dynamo: None, tracer: LocalTracer, group: None
) -> None:
    def compiled() -> tuple[int, int]:
        torch._dynamo.reset()
        counters.clear()
        counter = CompileCounter()

        @torch.compile(backend=counter, fullgraph=True)
        def reduce(x: torch.Tensor) -> torch.Tensor:
            return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1

        for _ in range(4):
            with trace_step():
                assert reduce(torch.ones(2)).tolist() == [3, 3]
        return counter.frame_count, counter.op_count

    tracer.recorder.note(events.DISTRIBUTED)
    traced = compiled()
    assert list(tracer.recorder.notes) == [waits.COMPILED]
    values = recorded(tracer).values
    assert all(math.isnan(ns) for ns in values[:, VALUES.index("collective_wait_ns")].tolist())
    tracer.close()
    assert traced == compiled()


def test_fsdp_s_waits_are_absent_until_the_first_is_seen(on_device: OnDevice) -> None:
    training = on_device.training
    waits.tell_unseen(training.recorder, waits.SHARDED)
    training.recorder.note(events.DISTRIBUTED)
    for number in range(6):
        if number == 3:
            calling_from("torch.distributed.any", "stream.wait_event(awaited)")(
                on_device.compute, on_device.other
            )
        training.step()
        training.stream.catch_up()
    training.clock.settle()
    steps = training.steps(ended=True)
    absent = [math.isnan(step["device_collective_wait"]) for step in steps]
    assert absent == [True, True, True, True, False, False]
    assert training.recorder.notes == {}


def test_collectives_work_when_the_hooks_are_gone(group: None) -> None:
    training = OnDevice()
    training.patches.undo()
    tracer = LocalTracer()
    tracer.unhook()
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert work is not None
    work.wait()

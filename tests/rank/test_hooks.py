"""Torch itself, hooked: each phase is found, and torch behaves as before."""

import io
import math
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from tests.rank.conftest import (
    PAUSE,
    LocalTracer,
    SlowBackward,
    Traced,
    dawdle,
    places,
    recorded,
)
from traceml import trace_step
from traceml.rank.batch import shape_of
from traceml.rank.dynamo import hook_compilation
from traceml.rank.events import ABANDON, Recorder
from traceml.rank.patches import Patches
from traceml.rank.waits import hook_device_waits
from traceml.wire.tags import Tag

PAUSE_NS = PAUSE * 1e9


class SlowStream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(3):
            dawdle()
            yield torch.zeros(5)


class SlowSGD(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        dawdle()
        super().step(closure)


def parameter() -> torch.nn.Parameter:
    one = torch.nn.Parameter(torch.zeros(3))
    one.grad = torch.ones(3)
    return one


def test_a_fetch_is_dataloader_time_and_brings_samples_and_elements(traced: Traced) -> None:
    for _ in DataLoader(SlowStream(), batch_size=3):
        traced.recorder.finish()
    (step,) = traced.records()
    assert step["dataloader_ns"] >= 3 * PAUSE_NS
    assert (step["samples"], step["elements"]) == (3, 15)


def test_the_iterator_of_a_loader_keeps_its_type_and_length(traced: Traced) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(10, 2)), batch_size=4)
    iterator = iter(loader)
    assert type(iterator) is _SingleProcessDataLoaderIter
    assert len(iterator) == len(loader) == 3


def test_an_iterator_made_before_the_hooks_is_timed_too(traced: Traced) -> None:
    traced.unhook()
    iterator = iter(DataLoader(SlowStream(), batch_size=1))
    traced.hook()
    next(iterator)
    traced.recorder.finish()
    assert traced.records()[0]["dataloader_ns"] >= PAUSE_NS


def test_a_fetch_on_a_thread_of_the_user_s_own_is_not_the_step_s(traced: Traced) -> None:
    thread = threading.Thread(target=lambda: list(DataLoader(SlowStream())))
    thread.start()
    thread.join()
    traced.recorder.finish()
    assert math.isnan(traced.records()[0]["dataloader_ns"])


def test_a_batch_that_explodes_when_looked_at_reaches_the_user_unharmed(traced: Traced) -> None:
    class Grenade(dict[str, int]):
        def values(self) -> None:  # type: ignore[override]
            raise RuntimeError("not for you")

    loader = DataLoader([0], collate_fn=lambda _: Grenade(a=1), batch_size=1)
    assert [dict(batch) for batch in loader] == [{"a": 1}]
    assert traced.recorder.faults == 1


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (torch.zeros(4, 3), (4, 12)),
        (torch.zeros(()), (1, 1)),
        ([torch.zeros(2, 2), torch.zeros(9)], (2, 4)),
        ({"x": (torch.zeros(6), 1)}, (6, 6)),
        ([], (0, 0)),
        ("text", (0, 0)),
    ],
)
def test_a_batch_is_as_large_as_its_first_tensor(batch: object, size: tuple[int, int]) -> None:
    shape = shape_of(batch)
    assert (shape[0], shape.numel()) == size


def test_a_step_that_calls_super_is_counted_once(traced: Traced) -> None:
    traced.recorder.finish()
    SlowSGD([parameter()], lr=0.1).step()
    traced.recorder.finish()
    _, step = traced.records()
    assert PAUSE_NS <= step["optimizer_ns"] <= step["step_ns"]


def test_an_optimizer_that_raises_does_not_swallow_the_next_step(traced: Traced) -> None:
    def explode() -> float:
        raise RuntimeError("from the user")

    optimizer = torch.optim.SGD([parameter()], lr=0.1)
    with pytest.raises(RuntimeError, match="from the user"):
        optimizer.step(explode)
    traced.recorder.mark(ABANDON)
    SlowSGD([parameter()], lr=0.1).step()
    traced.recorder.finish()
    assert traced.records()[0]["optimizer_ns"] >= PAUSE_NS


def test_lbfgs_does_not_count_its_closure_as_optimizer(traced: Traced) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([weight], max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = SlowBackward.apply(weight.pow(2).sum())
        loss.backward()
        return loss

    traced.recorder.finish()
    optimizer.step(closure)
    traced.recorder.finish()
    _, step = traced.records()
    assert step["backward_ns"] >= 2 * PAUSE_NS
    assert step["optimizer_ns"] < step["backward_ns"]


def test_backward_is_found_by_either_of_its_names(traced: Traced) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    SlowBackward.apply(weight.sum()).backward()
    torch.autograd.backward([SlowBackward.apply(weight.sum())])
    traced.recorder.finish()
    assert traced.records()[0]["backward_ns"] >= 2 * PAUSE_NS


def test_a_backward_that_raises_leaves_the_phases_in_order(traced: Traced) -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.zeros(1).backward()
    dawdle()
    traced.recorder.finish()
    step = traced.records()[0]
    assert step["other_ns"] >= PAUSE_NS > step["backward_ns"]


def test_what_a_silenced_recorder_gets_makes_no_steps(traced: Traced) -> None:
    traced.records()
    traced.recorder.silence()
    weight = parameter()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for (batch,) in DataLoader(TensorDataset(torch.ones(2, 3))):
        (weight * batch).sum().backward()
        torch.autograd.grad((weight * batch).sum(), [weight])
        optimizer.step()
        optimizer.zero_grad()
    assert traced.records() == []


def test_a_gradient_taken_by_autograd_grad_is_backward(traced: Traced) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    torch.autograd.grad(SlowBackward.apply(weight.sum()), [weight])
    traced.recorder.finish()
    assert traced.records()[0]["backward_ns"] >= PAUSE_NS


def test_a_scaler_that_skips_the_optimizer_ends_a_step_all_the_same(tracer: LocalTracer) -> None:
    weight = parameter()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for number in range(4):
        loss = weight.sum() * (float("inf") if number == 2 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert len(recorded(tracer, ended=True)) == 4


def test_saving_tags_the_step(traced: Traced) -> None:
    for number in range(3):
        if number == 1:
            torch.save({}, io.BytesIO())
        traced.recorder.finish()
    assert recorded(traced).tags.tolist() == [Tag.WARMUP, Tag.CHECKPOINT, 0]


def test_saving_on_a_thread_of_the_user_s_own_tags_nothing(traced: Traced) -> None:
    traced.recorder.finish()
    thread = threading.Thread(target=torch.save, args=({}, io.BytesIO()))
    thread.start()
    thread.join()
    traced.recorder.finish()
    assert recorded(traced).tags.tolist() == [Tag.WARMUP, 0]


def test_a_distributed_checkpoint_tags_the_step(
    tracer: LocalTracer, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for number in range(3):
        with trace_step():
            if number == 1:
                torch.distributed.checkpoint.save({"x": torch.ones(1)}, checkpoint_id=tmp_path)
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, Tag.CHECKPOINT, 0]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiling_tags_the_step(dynamo: None, tracer: LocalTracer) -> None:
    double = torch.compile(lambda x: x * 2, backend="eager")
    for number in range(4):
        with trace_step():
            if number:
                double(torch.ones(2))
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, Tag.COMPILE, 0, 0]


def slope(x: torch.Tensor) -> torch.Tensor:
    gradient = torch.autograd.grad([(x * x).sum()], [x])[0]
    assert gradient is not None
    return gradient


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torchscript_still_knows_what_we_stand_in_for(traced: Traced) -> None:
    scripted = torch.jit.script(slope)
    assert scripted(torch.ones(2, requires_grad=True)).tolist() == [2.0, 2.0]


def test_an_optimizer_that_the_user_deletes_is_freed_and_its_successor_told_apart(
    tracer: LocalTracer,
) -> None:
    weight = parameter()
    for _ in range(3):
        optimizer = torch.optim.SGD([weight], lr=0.1)
        gone = weakref.ref(optimizer)
        for _ in range(2):
            weight.sum().backward()
            optimizer.step()
        del optimizer
        assert gone() is None
    assert recorded(tracer, ended=True).tags.tolist() == [Tag.WARMUP, 0] * 3


def test_what_somebody_else_put_over_a_hook_stays_when_an_optimizer_steps(
    traced: Traced,
) -> None:
    zeroed: list[object] = []
    ours = torch.optim.Optimizer.zero_grad

    def theirs(self: torch.optim.Optimizer, *args: bool) -> None:
        zeroed.append(self)
        ours(self, *args)

    torch.optim.Optimizer.zero_grad = theirs
    optimizer = torch.optim.SGD([parameter()], lr=0.1)
    optimizer.step()
    optimizer.zero_grad()
    torch.optim.Optimizer.zero_grad = ours.__wrapped__
    assert zeroed == [optimizer]


def test_hooks_can_be_taken_back_though_the_user_has_reset_dynamo(dynamo: None) -> None:
    recorder, patches = Recorder(), Patches()
    hook_compilation(torch._dynamo, recorder, patches)
    torch._dynamo.reset()
    patches.undo()
    assert torch._dynamo.callback_handler.start_callbacks == []


def test_everything_is_as_it_was_when_the_hooks_are_gone(accelerated: None) -> None:
    before = places()
    tracer = LocalTracer()
    hook_device_waits(None, tracer.recorder, tracer._patches)
    changed = {name for name, now in places().items() if now != before[name]}
    assert changed >= before.keys() - {"module hooks", "Module.__call__"}
    tracer.unhook()
    assert places() == before

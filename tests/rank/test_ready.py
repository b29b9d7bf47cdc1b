"""The mark stands after all own work of a backward, whatever the graph looks like."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.rank.conftest import PAUSE, SlowBackward, Traced, dawdle
from traceml.rank.events import DISTRIBUTED

PAUSE_NS = PAUSE * 1e9


class Net(torch.nn.Module):
    """The slow piece comes last in backward: a mark set too early would call it waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.early(self.first(x)))

    def early(self, x: torch.Tensor) -> torch.Tensor:
        return SlowBackward.apply(x)


class Reentrant(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(checkpoint(self.inside, x, use_reentrant=True))

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return self.early(self.first(x))


class Replayed(Reentrant):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(checkpoint(self.inside, x, use_reentrant=False))


class Frozen(Net):
    def __init__(self) -> None:
        super().__init__()
        self.second.requires_grad_(False)


class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.second.weight = self.first.weight


def train(traced: Traced, model: torch.nn.Module, steps: int, backwards: int = 1) -> None:
    for _ in range(steps):
        for _ in range(backwards):
            model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        traced.recorder.finish()


@pytest.fixture
def wait(traced: Traced) -> Callable[[torch.nn.Module], Traced]:
    def attach(model: torch.nn.Module) -> Traced:
        traced.recorder.note(DISTRIBUTED)
        traced.ready.attach([model])
        return traced

    return attach


@pytest.mark.parametrize("kind", [Net, Replayed, Reentrant, Frozen, Tied])
@pytest.mark.parametrize("backwards", [1, 2])
def test_own_work_before_the_mark_is_backward(
    wait: Callable[[torch.nn.Module], Traced], kind: type[torch.nn.Module], backwards: int
) -> None:
    model = kind()
    traced = wait(model)
    train(traced, model, 8, backwards)
    last = traced.records()[-1]
    assert last["backward_ns"] >= backwards * PAUSE_NS
    assert last["collective_wait_ns"] < PAUSE_NS / 2


def test_what_follows_the_mark_within_backward_is_waiting(
    wait: Callable[[torch.nn.Module], Traced],
) -> None:
    model = Net()
    traced = wait(model)

    def exchange(_: torch.Tensor) -> None:  # as DDP does: after the last gradient
        torch.autograd.Variable._execution_engine.queue_callback(dawdle)

    train(traced, model, 1)
    model.first.bias.register_post_accumulate_grad_hook(exchange)
    model.first.weight.register_post_accumulate_grad_hook(exchange)
    train(traced, model, 3)
    last = traced.records()[-1]
    assert last["collective_wait_ns"] >= PAUSE_NS


def test_the_backward_that_is_learned_from_has_no_figures(
    wait: Callable[[torch.nn.Module], Traced],
) -> None:
    model = Net()
    traced = wait(model)
    train(traced, model, 3)
    learned_from, second, third = traced.records()
    assert math.isnan(learned_from["backward_ns"])
    assert math.isnan(learned_from["collective_wait_ns"])
    assert not any(math.isnan(step["backward_ns"]) for step in (second, third))


def test_a_graph_that_changes_is_learned_anew(wait: Callable[[torch.nn.Module], Traced]) -> None:
    model = Net()
    traced = wait(model)
    train(traced, model, 3)
    model.first.requires_grad_(False)
    train(traced, model, 4)
    figures = [step["collective_wait_ns"] for step in traced.records()]
    assert math.isnan(figures[3])
    assert not math.isnan(figures[-1])


def test_only_one_parameter_keeps_a_hook(wait: Callable[[torch.nn.Module], Traced]) -> None:
    model = Net()
    traced = wait(model)
    train(traced, model, 3)
    hooked = [p for p in model.parameters() if p._post_accumulate_grad_hooks]
    assert len(hooked) == 1
    traced.ready.detach()
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())


def test_where_no_mark_can_be_had_waits_stay_absent(
    wait: Callable[[torch.nn.Module], Traced],
) -> None:
    attached, other = Net(), Net()
    traced = wait(attached)
    with torch.no_grad():
        leaf = torch.ones(2, 4)
    leaf.requires_grad_()
    for _ in range(8):
        leaf.backward(torch.ones(2, 4))  # no graph, no parameter: nothing to hang a mark on
        traced.recorder.finish()
    assert all(math.isnan(step["collective_wait_ns"]) for step in traced.records())
    train(traced, other, 1)

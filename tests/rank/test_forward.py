"""A traced model is still the user's model."""

import copy
import io
import math
import pickle
import weakref
from typing import Any

import pytest
import torch

from tests.rank.conftest import PAUSE, dawdle, recorded
from traceml import trace_step
from traceml.rank.hooks import hook_copies
from traceml.rank.tracer import Tracer
from traceml.wire.columns import VALUES, Tag

FORWARD = VALUES.index("forward_ns")


class Net(torch.nn.Module):
    def __init__(self, slow: bool = False) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.slow = slow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.slow:
            dawdle()
        return self.inner(x)


def train(model: Any) -> None:
    with trace_step(model):
        model(torch.ones(2, 4)).sum().backward()


def forward_ns(tracer: Tracer) -> list[float]:
    times: list[float] = recorded(tracer.recorder).values[:, FORWARD].tolist()
    return times


def test_the_forward_of_the_model_is_timed(tracer: Tracer) -> None:
    model = Net(slow=True)
    train(model)
    train(model)
    assert min(forward_ns(tracer)) >= PAUSE * 1e9


def test_a_traced_model_pickles_and_copies_as_if_untraced(tracer: Tracer) -> None:
    model = Net()
    keys = list(model.state_dict())
    train(model)
    assert list(model.state_dict()) == keys
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), saved(model)):
        assert "_compiled_call_impl" not in twin.__dict__ or twin._compiled_call_impl is None
        assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))
        assert not twin.inner.weight._post_accumulate_grad_hooks


def saved(model: torch.nn.Module) -> Any:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def test_a_model_the_user_deletes_is_freed_at_once(tracer: Tracer) -> None:
    model = Net()
    train(model)
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_an_inference_of_the_model_outside_a_step_works_as_ever(tracer: Tracer) -> None:
    model = Net()
    train(model)
    tracer.close()
    assert model.__dict__.get("_compiled_call_impl") is None
    assert model(torch.ones(1, 4)).shape == (1, 4)


def test_a_second_model_takes_over_from_the_first(tracer: Tracer) -> None:
    first, second = Net(slow=True), Net(slow=True)
    train(first)
    train(second)
    assert first.__dict__["_compiled_call_impl"] is None
    assert min(forward_ns(tracer)) >= PAUSE * 1e9


def test_a_model_compiled_after_the_first_step_is_still_timed(tracer: Tracer) -> None:
    model = Net()
    train(model)
    model.compile(backend="eager")
    train(model)
    train(model)
    assert len(forward_ns(tracer)) == 3
    assert model._compiled_call_impl.__wrapped__ is not None


def compiled_graphs(traced: bool) -> tuple[int, int]:
    """Graphs made of three training steps in whole, and how often dynamo gave up."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    counter = torch._dynamo.testing.CompileCounter()
    net = Net()
    model = torch.compile(net, backend=counter)
    for _ in range(3):
        if traced:
            train(model)
        else:
            model(torch.ones(2, 4)).sum().backward()
    return counter.frame_count, sum(torch._dynamo.utils.counters["graph_break"].values())


@pytest.fixture
def dynamo() -> None:
    pass


def test_compiling_makes_no_more_graphs_breaks_or_recompilations(
    dynamo: None, tracer: Tracer
) -> None:
    hook_copies(tracer.recorder, tracer._patches)
    traced = compiled_graphs(traced=True)
    tracer.close()
    assert traced == compiled_graphs(traced=False)
    assert traced[0] == 1


def test_a_whole_step_compiled_in_one_function_is_not_broken(dynamo: None, tracer: Tracer) -> None:
    def graphs() -> tuple[int, int]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        counter = torch._dynamo.testing.CompileCounter()

        @torch.compile(backend=counter)
        def loss_of(x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = model(x).sum()
            return out

        for _ in range(3):
            with trace_step(model):
                loss_of(torch.ones(2, 4)).backward()
        return counter.frame_count, sum(torch._dynamo.utils.counters["graph_break"].values())

    model = Net()
    traced = graphs()
    tracer.close()
    assert traced == graphs() == (1, 0)


def test_a_step_with_an_evaluation_in_it_is_tagged(tracer: Tracer) -> None:
    model = Net()
    train(model)
    train(model)
    model.eval()
    with torch.no_grad():
        model(torch.ones(2, 4))
    model.train()
    train(model)
    train(model)
    assert recorded(tracer.recorder).tags.tolist() == [Tag.WARMUP, 0, Tag.EVAL, 0]


@pytest.mark.parametrize("training", [True, False])
def test_training_in_eval_mode_or_a_teacher_s_forward_is_no_evaluation(
    tracer: Tracer, training: bool
) -> None:
    model = Net().train(training)
    for _ in range(3):
        if training:
            with torch.no_grad():
                model(torch.ones(2, 4))
        train(model)
    assert recorded(tracer.recorder).tags.tolist() == [Tag.WARMUP, 0, 0]


def test_a_model_that_is_never_called_has_no_forward(tracer: Tracer) -> None:
    model = Net()
    with trace_step(model):
        model.inner(torch.ones(2, 4)).sum().backward()
    assert math.isnan(forward_ns(tracer)[0])


@pytest.mark.parametrize("marked", [False, True])
def test_a_step_compiled_with_its_backward_is_not_broken_further(
    dynamo: None, tracer: Tracer, marked: bool
) -> None:
    def graphs(model: torch.nn.Module) -> tuple[int, int]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        counter = torch._dynamo.testing.CompileCounter()

        @torch.compile(backend=counter)
        def train(x: torch.Tensor) -> None:
            model(x).sum().backward()

        for _ in range(4):
            with trace_step(model):
                train(torch.ones(2, 4))
        return counter.frame_count, sum(torch._dynamo.utils.counters["graph_break"].values())

    model = Net()
    with trace_step(model):
        pass
    if marked:
        tracer._ready.attach(model)
    traced = graphs(model)
    tracer.close()
    assert traced == graphs(Net())


def test_a_model_that_comes_after_scopes_without_one_is_timed(dynamo: None, tracer: Tracer) -> None:
    with trace_step():
        pass
    model = Net(slow=True)
    train(model)
    assert forward_ns(tracer)[-1] >= PAUSE * 1e9

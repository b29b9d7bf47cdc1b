"""A traced model is still the user's model, whether it was shown to us or found."""

import copy
import io
import math
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.rank.conftest import PAUSE, LocalTracer, dawdle, is_timed, recorded
from traceml import trace_step
from traceml.wire.columns import VALUES
from traceml.wire.tags import Tag

# What dynamo itself imports when it first compiles.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

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


def train_unaware(model: Any, steps: int = 3) -> None:
    """As a script does that knows nothing of TraceML."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def forward_ns(tracer: LocalTracer) -> list[float]:
    times: list[float] = recorded(tracer).values[:, FORWARD].tolist()
    return times


def test_the_forward_of_the_model_is_timed(tracer: LocalTracer) -> None:
    model = Net(slow=True)
    train(model)
    train(model)
    assert min(forward_ns(tracer)) >= PAUSE * 1e9


def test_the_forward_of_a_model_that_was_found_is_timed(tracer: LocalTracer) -> None:
    train_unaware(Net(slow=True), 5)
    times = forward_ns(tracer)
    assert len(times) == 4  # the last shows when the next begins, or the training ends
    assert min(times[1:]) >= PAUSE * 1e9


def test_a_model_in_a_scope_that_names_none_is_found(tracer: LocalTracer) -> None:
    model = Net(slow=True)
    for _ in range(3):
        with trace_step():
            model(torch.ones(2, 4)).sum().backward()
    assert min(forward_ns(tracer)[1:]) >= PAUSE * 1e9


def test_the_model_of_a_scope_is_the_only_one_that_is_timed(tracer: LocalTracer) -> None:
    teacher, student = Net(), Net()
    train_unaware(teacher)
    assert is_timed(teacher)
    train(student)
    assert (is_timed(teacher), is_timed(student)) == (False, True)


class Recurrent(Net):
    """An LSTM keeps more of its state than other modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.LSTM(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.inner(x)[0]
        return output


@pytest.mark.parametrize("train", [train, train_unaware])
@pytest.mark.parametrize("kind", [Net, Recurrent])
def test_a_traced_model_pickles_and_copies_as_if_untraced(
    tracer: LocalTracer, train: Callable[[Any], None], kind: type[Net]
) -> None:
    model = kind()
    keys = list(model.state_dict())
    train(model)
    assert is_timed(model)
    assert list(model.state_dict()) == keys
    for copied in (pickled, copy.deepcopy, copy.copy, saved):
        twin = copied(model)
        assert not any(is_timed(module) for module in twin.modules() if module is not model.inner)
        assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))
    assert is_timed(model)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.Linear])
def test_a_model_that_is_copied_while_roots_are_sought_takes_nothing_of_ours_along(
    tracer: LocalTracer, kind: type[torch.nn.Module]
) -> None:
    part = kind(4, 4)
    model = torch.nn.ModuleList([part])
    torch.ones(1, requires_grad=True).backward()  # the training begins: all are candidates
    assert is_timed(part)
    for copied in (pickled, copy.deepcopy, saved):
        assert not any(is_timed(module) for module in copied(model).modules())
    assert not is_timed(copy.copy(part))
    assert is_timed(part)


def pickled(model: torch.nn.Module) -> Any:
    return pickle.loads(pickle.dumps(model))


def saved(model: torch.nn.Module) -> Any:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("train", [train, train_unaware])
def test_a_model_the_user_deletes_is_freed_at_once(
    tracer: LocalTracer, train: Callable[[Any], None]
) -> None:
    model = Net()
    train(model)
    gone = weakref.ref(model)
    del model
    assert gone() is None


@pytest.mark.parametrize("train", [train, train_unaware])
def test_after_tracing_the_model_works_as_ever(
    tracer: LocalTracer, train: Callable[[Any], None]
) -> None:
    model = Net()
    train(model)
    tracer.close()
    assert model.__dict__.get("_compiled_call_impl") is None
    assert model(torch.ones(1, 4)).shape == (1, 4)


def test_a_second_model_takes_over_from_the_first(tracer: LocalTracer) -> None:
    first, second = Net(slow=True), Net(slow=True)
    train(first)
    train(second)
    assert not is_timed(first)
    assert is_timed(second)
    assert min(forward_ns(tracer)) >= PAUSE * 1e9


def test_a_model_compiled_after_the_first_step_is_still_timed(
    dynamo: None, tracer: LocalTracer
) -> None:
    model = Net()
    train(model)
    model.compile(backend="eager")
    train(model)
    train(model)
    assert min(forward_ns(tracer)) > 0
    assert is_timed(model)


def compiled_graphs(traced: bool) -> tuple[int, int]:
    """Graphs made of three training steps in whole, and how often dynamo gave up."""
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


def test_compiling_makes_no_more_graphs_breaks_or_recompilations(
    dynamo: None, accelerated: None, tracer: LocalTracer
) -> None:
    traced = compiled_graphs(traced=True)
    tracer.close()
    torch._dynamo.reset()
    assert traced == compiled_graphs(traced=False)
    assert traced[0] == 1


def test_a_whole_step_compiled_in_one_function_is_not_broken(
    dynamo: None, tracer: LocalTracer
) -> None:
    def graphs() -> tuple[int, int]:
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
    torch._dynamo.reset()
    assert traced == graphs() == (1, 0)


def test_a_step_with_an_evaluation_in_it_is_tagged(tracer: LocalTracer) -> None:
    model = Net()
    train(model)
    train(model)
    model.eval()
    with torch.no_grad():
        model(torch.ones(2, 4))
    model.train()
    train(model)
    train(model)
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, 0, Tag.EVAL, 0]


@pytest.mark.parametrize("training", [True, False])
def test_training_in_eval_mode_or_a_teacher_s_forward_is_no_evaluation(
    tracer: LocalTracer, training: bool
) -> None:
    model = Net().train(training)
    for _ in range(3):
        if training:
            with torch.no_grad():
                model(torch.ones(2, 4))
        train(model)
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, 0, 0]


def test_an_evaluation_in_a_loop_without_scopes_is_tagged(tracer: LocalTracer) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(6):
        if number == 4:
            model.eval()
            with torch.no_grad():
                model(torch.ones(2, 4))
            model.train()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    tags = recorded(tracer, ended=True).tags.tolist()
    assert tags == [Tag.WARMUP, 0, 0, 0, Tag.EVAL, 0]


def test_a_model_that_is_never_called_has_no_forward(tracer: LocalTracer) -> None:
    model = Net()
    with trace_step(model):
        model.inner(torch.ones(2, 4)).sum().backward()
    assert math.isnan(forward_ns(tracer)[0])


@pytest.mark.parametrize("marked", [False, True])
def test_a_step_compiled_with_its_backward_is_not_broken_further(
    dynamo: None, tracer: LocalTracer, marked: bool
) -> None:
    def graphs(model: torch.nn.Module) -> tuple[int, int]:
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
        tracer._ready.attach([model])
    traced = graphs(model)
    tracer.close()
    torch._dynamo.reset()
    assert traced == graphs(Net())


def test_a_model_that_comes_after_scopes_without_one_is_timed(tracer: LocalTracer) -> None:
    with trace_step():
        pass
    model = Net(slow=True)
    train(model)
    assert forward_ns(tracer)[-1] >= PAUSE * 1e9

"""The modules whose calls are the forward are found, and all others are left alone."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

from tests.rank.conftest import LocalTracer, is_timed, recorded
from traceml.rank import events, roots
from traceml.wire.columns import VALUES

# What dynamo itself imports when it first compiles.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

FORWARD = VALUES.index("forward_ns")
INPUTS = torch.ones(2, 4)

Train = Callable[[], None]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Wrapper(nn.Module):
    """Like DDP: a module around the model, which is called instead of it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


class Autoencoder(nn.Module):
    """A container that is never called: its methods call its children."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Net()
        self.decoder = Net()

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x)

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(x)


def training(loss_of: Callable[[], torch.Tensor], *models: nn.Module) -> Train:
    """One step of a loop that knows nothing of TraceML."""
    parameters = [parameter for model in models for parameter in model.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()

    return step


def train(step: Train, steps: int = 4) -> None:
    for _ in range(steps):
        step()


def timed_in(*models: nn.Module) -> set[nn.Module]:
    return {module for model in models for module in model.modules() if is_timed(module)}


def forward_ns(tracer: LocalTracer) -> list[float]:
    times: list[float] = recorded(tracer, ended=True).values[:, FORWARD].tolist()
    return times


def test_the_model_of_a_plain_loop_is_found_and_its_forward_timed(tracer: LocalTracer) -> None:
    model = Net()
    train(training(lambda: model(INPUTS).sum(), model), 5)
    assert timed_in(model) == {model}
    assert tracer._roots.modules == [model]
    times = forward_ns(tracer)
    assert len(times) == 5
    assert min(times[2:]) > 0


def test_a_call_is_one_forward_even_while_the_roots_are_sought(tracer: LocalTracer) -> None:
    model = Net()
    step = training(lambda: model(INPUTS).sum(), model)
    step()
    tracer.recorder.clear()
    train(step, 3)
    codes = [code for code, _, _ in tracer.recorder.take()[0]]
    assert codes.count(events.FORWARD_TRAIN) == codes.count(events.FORWARD_END) == 3


def test_of_many_models_trained_one_after_the_other_the_last_is_timed(
    tracer: LocalTracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots, "_FREE_LOOKS", 1_000)
    models = [Net() for _ in range(roots._MAX_ROOTS + 3)]
    for model in models:
        train(training(lambda model=model: model(INPUTS).sum(), model), 4)  # type: ignore[misc]
    timed = timed_in(*models)
    assert models[-1] in timed
    assert len(timed) == roots._MAX_ROOTS


def test_two_models_are_both_found(tracer: LocalTracer) -> None:
    first, second = Net(), Net()
    train(training(lambda: second(first(INPUTS)).sum(), first, second))
    assert timed_in(first, second) == {first, second}


def test_of_a_container_that_is_never_called_the_children_are_found(tracer: LocalTracer) -> None:
    model = Autoencoder()
    train(training(lambda: model.decode(model.encode(INPUTS)).sum(), model))
    assert timed_in(model) == {model.encoder, model.decoder}


def test_a_wrapper_takes_precedence_over_the_model_in_it(tracer: LocalTracer) -> None:
    inner = Net()
    model = Wrapper(inner)
    train(training(lambda: model(INPUTS).sum(), model))
    assert timed_in(model) == {model}


def test_a_wrapper_takes_precedence_though_the_model_in_it_was_called_before(
    tracer: LocalTracer,
) -> None:
    inner = Net()
    inner(INPUTS)
    model = Wrapper(inner)
    train(training(lambda: model(INPUTS).sum(), model))
    assert timed_in(model) == {model}


def test_a_model_that_is_first_called_in_eval_mode_is_found(tracer: LocalTracer) -> None:
    model = Net().eval()
    with torch.no_grad():
        model(INPUTS)
    model.train()
    train(training(lambda: model(INPUTS).sum(), model))
    assert timed_in(model) == {model}


def test_a_model_that_is_made_after_the_first_was_trained_is_found(tracer: LocalTracer) -> None:
    first = Net()
    train(training(lambda: first(INPUTS).sum(), first))
    second = Net()
    train(training(lambda: second(INPUTS).sum(), second))
    assert timed_in(first, second) == {first, second}


def test_modules_without_parameters_are_not_the_model(tracer: LocalTracer) -> None:
    model, loss, augment = Net(), nn.MSELoss(), nn.Dropout(0.0)
    train(training(lambda: loss(model(augment(INPUTS)), INPUTS), model))
    assert timed_in(model, loss, augment) == {model}


def test_a_model_that_is_not_called_is_left_alone(tracer: LocalTracer) -> None:
    model, idle = Net(), Net()
    train(training(lambda: model(INPUTS).sum(), model, idle))
    assert timed_in(model, idle) == {model}


def test_after_unhooking_no_module_keeps_anything_of_ours(tracer: LocalTracer) -> None:
    model = Net()
    step = training(lambda: model(INPUTS).sum(), model)
    for steps in (1, 3):
        train(step, steps)
        tracer.unhook()
        assert timed_in(model) == set()
        tracer.hook()


def test_a_model_compiled_in_place_before_it_is_trained_is_timed(
    dynamo: None, tracer: LocalTracer
) -> None:
    model, compiled = Net(), CompileCounter()
    model.compile(backend=compiled)
    train(training(lambda: model(INPUTS).sum(), model), 6)
    assert timed_in(model) == {model}
    assert compiled.frame_count == 1
    assert min(forward_ns(tracer)[3:]) > 0


@pytest.mark.parametrize("steps", [1, 4])
def test_a_model_compiled_in_place_after_some_steps_is_still_timed(
    dynamo: None, tracer: LocalTracer, steps: int
) -> None:
    model, compiled = Net(), CompileCounter()
    step = training(lambda: model(INPUTS).sum(), model)
    train(step, steps)
    model.compile(backend=compiled)
    train(step, 4)
    assert timed_in(model) == {model}
    assert compiled.frame_count == 1


# -- compiling makes the same of a traced training as of an untraced one


def a_compiled_model(backend: Any) -> Train:
    net = Net()
    model = torch.compile(net, backend=backend)
    return training(lambda: model(INPUTS).sum(), net)


def a_model_compiled_in_place(backend: Any) -> Train:
    model = Net()
    model.compile(backend=backend)
    return training(lambda: model(INPUTS).sum(), model)


def a_part_compiled_in_place(backend: Any) -> Train:
    model = Wrapper(Net())
    model.module.compile(backend=backend)
    return training(lambda: model(INPUTS).sum(), model)


def a_model_compiled_after_two_steps(backend: Any) -> Train:
    net = Net()
    train(training(lambda: net(INPUTS).sum(), net), 2)
    model = torch.compile(net, backend=backend)
    return training(lambda: model(INPUTS).sum(), net)


def a_compiled_function_that_calls_the_model(backend: Any) -> Train:
    model = Net()

    @torch.compile(backend=backend)
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).sum()
        return loss

    return training(lambda: loss_of(INPUTS), model)


def a_compiled_function_in_one_graph(backend: Any) -> Train:
    model = Net()
    loss_of = torch.compile(lambda x: model(x).sum(), backend=backend, fullgraph=True)
    return training(lambda: loss_of(INPUTS), model)


class Descent(torch.optim.Optimizer):
    """Torch's own optimizers break their graphs themselves; this one does not."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=0.01)


def a_compiled_optimizer(backend: Any) -> Train:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training_with(model, optimizer, torch.compile(lambda: optimizer.step(), backend=backend))


def a_compiled_optimizer_in_one_graph(backend: Any) -> Train:
    model = Net()
    optimizer = Descent(model.parameters())
    step = torch.compile(lambda: optimizer.step(), backend=backend, fullgraph=True)
    return training_with(model, optimizer, step)


def training_with(model: nn.Module, optimizer: torch.optim.Optimizer, update: Train) -> Train:
    def step() -> None:
        optimizer.zero_grad()
        model(INPUTS).sum().backward()
        update()

    return step


def a_compiled_step_with_its_backward(backend: Any) -> Train:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend=backend)
    def step() -> None:
        model(INPUTS).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return lambda: step()


def what_is_compiled(build: Callable[[Any], Train]) -> dict[str, int]:
    """What dynamo makes of eight steps."""
    counters.clear()
    counter = CompileCounter()
    train(build(counter), 8)
    return {
        "graphs": counter.frame_count,
        "operations": counter.op_count,
        "breaks": sum(counters["graph_break"].values()),
    }


@pytest.mark.parametrize(
    "build",
    [
        a_compiled_model,
        a_model_compiled_in_place,
        a_part_compiled_in_place,
        a_model_compiled_after_two_steps,
        a_compiled_function_that_calls_the_model,
        a_compiled_function_in_one_graph,
        a_compiled_optimizer,
        a_compiled_optimizer_in_one_graph,
        a_compiled_step_with_its_backward,
    ],
)
def test_no_more_is_compiled_than_without_tracing(
    dynamo: None, accelerated: None, tracer: LocalTracer, build: Callable[[Any], Train]
) -> None:
    traced = what_is_compiled(build)
    tracer.close()
    torch._dynamo.reset()
    untraced = what_is_compiled(build)
    assert traced == untraced
    assert untraced["graphs"] > 0


def test_the_model_of_a_compiled_function_is_said_to_be_out_of_sight(
    dynamo: None, tracer: LocalTracer
) -> None:
    train(a_compiled_function_that_calls_the_model("eager"), 12)
    assert len(forward_ns(tracer)) == 12
    assert [note for note in tracer.recorder.notes if "compiled function" in note]


class Stubborn(nn.Linear):
    open = False

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        if not self.open:
            raise RuntimeError("not for you")
        yield from super().parameters(recurse)


@pytest.fixture
def awkward() -> Iterator[list[nn.Module]]:
    """Modules that it is not safe to ask for anything; harmless afterwards."""
    stubborn = Stubborn(4, 4)
    half_made = nn.Linear.__new__(nn.Linear)  # as while it is being unpickled
    yield [stubborn, half_made]
    stubborn.open = True
    nn.Module.__init__(half_made)


def test_modules_that_do_not_tell_their_parameters_disturb_nobody(
    awkward: list[nn.Module], tracer: LocalTracer
) -> None:
    model = Net()
    train(training(lambda: model(INPUTS).sum(), model))
    assert timed_in(model) == {model}
    assert len(forward_ns(tracer)) == 4


def test_models_that_the_garbage_collector_does_not_know_are_found_when_they_are_called(
    tracer: LocalTracer,
) -> None:
    model = Wrapper(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = nn.Module.__call__
    gc.freeze()
    try:
        for _ in range(6):
            model(INPUTS).sum().backward()
            optimizer.step()
    finally:
        gc.unfreeze()
    forward = recorded(tracer, ended=True).values[:, FORWARD].tolist()
    assert all(ns > 0 for ns in forward[1:])
    assert nn.Module.__call__ is before
    assert is_timed(model)
    assert not is_timed(model.module)

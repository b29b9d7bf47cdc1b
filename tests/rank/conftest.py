from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import getattr_static
from time import sleep
from typing import Any, Protocol

import pytest
import torch
import torch._dynamo  # here already, so that no tracer's wish to hear of it outlives its test
import torch.distributed._functional_collectives
import torch.distributed.checkpoint
from torch.amp import GradScaler
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader

from traceml.rank import hooks, step
from traceml.rank.device import may_be_used
from traceml.rank.events import SCOPE, Recorder
from traceml.rank.forward import PLACE, Timed
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.replay import Replay
from traceml.rank.roots import Roots
from traceml.rank.slots import to_records
from traceml.rank.tracer import Tracer
from traceml.wire.columns import VALUES, Records

PAUSE = 0.02


class Read(Protocol):
    """Whose entries are replayed here, not by a sender."""

    recorder: Recorder
    replay: Replay


def recorded(of: Read, ended: bool = False) -> Records:
    """The steps since it was asked last; with `ended` there will be no more."""
    rows = of.replay.feed(*of.recorder.take())
    if ended:
        rows += of.replay.finish()
    return to_records(rows, of.recorder.price_ns, None)


def by_name(records: Records) -> list[dict[str, float]]:
    """Steps, each by the names of its values; NaN for what was not measured."""
    return [dict(zip(VALUES, row, strict=True)) for row in records.values.tolist()]


class LocalTracer(Tracer):
    """A tracer whose entries are read here instead of being sent."""

    def __init__(self) -> None:
        super().__init__("unix:///nobody.sock")
        self.replay = Replay(self.recorder)


@dataclass
class Traced:
    """Torch, hooked in this process, and what was recorded of it."""

    recorder: Recorder = field(default_factory=Recorder)
    patches: Patches = field(default_factory=Patches)

    def __post_init__(self) -> None:
        self.replay = Replay(self.recorder)
        self.ready = ReadyMark(self.recorder)
        self.roots = Roots(self.recorder, self.ready)

    def hook(self) -> None:
        hooks.install(self.recorder, self.ready, self.roots, lambda _: None, self.patches)

    def unhook(self) -> None:
        self.ready.detach()
        self.roots.release()
        self.patches.undo()

    def records(self, ended: bool = False) -> list[dict[str, float]]:
        return by_name(recorded(self, ended))


class Nobody:
    """A sender that sends nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    hold = release = disown = close = start


@pytest.fixture
def dynamo() -> None:
    """Nothing compiled yet; stands before `tracer`, whose callback a reset would take away."""
    torch._dynamo.reset()


@pytest.fixture
def accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that could use an accelerator; stands before whatever hooks it."""
    monkeypatch.setattr(torch.version, "xpu", "pretended", raising=False)
    assert may_be_used()


@pytest.fixture
def traced() -> Iterator[Traced]:
    """All hooks in place, nothing sent; steps end where `recorder.finish` says."""
    traced = Traced()
    traced.recorder.note(SCOPE)
    traced.hook()
    yield traced
    traced.unhook()


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalTracer]:
    """What `traceml run` brings into a process and `trace_step` works on, without a sidecar."""
    monkeypatch.setattr("traceml.rank.sender.Sender", Nobody)
    tracer = LocalTracer()
    monkeypatch.setattr(step, "_tracer", tracer)
    yield tracer
    tracer.close()


def places() -> dict[str, Any]:
    """Everything in torch that hooks may stand in for, or be registered with."""
    owners: dict[Any, tuple[str, ...]] = {
        dataloader._BaseDataLoaderIter: ("__next__",),
        torch.autograd: ("backward", "grad"),
        torch: ("save",),
        torch.Tensor: ("to", "cuda", "xpu"),
        torch._dynamo.symbolic_convert.InstructionTranslator: ("run",),
        # Not __setstate__: dynamo puts its own over ours when it compiles for the first time.
        torch.nn.Module: ("__call__", "zero_grad", "compile", "_replicate_for_data_parallel"),
        optimizers.Optimizer: ("__init__", "zero_grad"),
        GradScaler: ("step", "update"),
        torch._C._distributed_c10d.Work: ("wait",),
        torch.distributed: ("_broadcast_coalesced",),
        torch.distributed._functional_collectives: ("wait_tensor",),
        torch._C._distributed_c10d.ProcessGroup: ("allreduce", "broadcast", "barrier"),
        torch.distributed.checkpoint: ("save", "async_save"),
    }
    found = {
        f"{owner.__name__}.{name}": getattr_static(owner, name)
        for owner, names in owners.items()
        for name in names
    }
    registered = {
        "module hooks": modules._global_forward_pre_hooks,
        "optimizer pre hooks": optimizers._global_optimizer_pre_hooks,
        "optimizer post hooks": optimizers._global_optimizer_post_hooks,
        "compile callbacks": torch._dynamo.callback_handler.start_callbacks,
    }
    return found | {name: list(of) for name, of in registered.items()}


@pytest.fixture(autouse=True)
def torch_is_left_as_it_was() -> Iterator[None]:
    before = places()
    yield
    assert places() == before


def is_timed(module: torch.nn.Module) -> bool:
    """Whether something of ours hangs on this module, compiled or not."""
    return isinstance(module.__dict__.get(PLACE), Timed)


def dawdle() -> None:
    sleep(PAUSE)


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        dawdle()
        return gradient

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import sleep

import pytest
import torch

from traceml.rank import hooks, step
from traceml.rank import tracer as tracers
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.recorder import Recorder
from traceml.rank.ring import Ring
from traceml.rank.slots import to_records
from traceml.wire.columns import VALUES, Records

PAUSE = 0.02


@dataclass
class Traced:
    """Torch, hooked in this process, and what was recorded of it."""

    recorder: Recorder
    ready: ReadyMark
    patches: Patches = field(default_factory=Patches)

    def records(self) -> list[dict[str, float]]:
        """The steps so far, each by the names of its values; NaN for what was not measured."""
        values = recorded(self.recorder).values
        return [dict(zip(VALUES, row, strict=True)) for row in values.tolist()]


@pytest.fixture
def traced() -> Iterator[Traced]:
    """All hooks in place, nothing sent."""
    recorder = Recorder(Ring())
    traced = Traced(recorder, ReadyMark(recorder))
    hooks.install(traced.recorder, traced.ready, traced.patches)
    yield traced
    traced.ready.detach()
    traced.patches.undo()


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tracers.Tracer]:
    """What `trace_step` works on, without a sidecar."""

    class Nobody:
        def __init__(self, *_: object) -> None:
            pass

        def start(self) -> None:
            pass

        hold = release = close = start

    monkeypatch.setattr(tracers, "Sender", Nobody)
    tracer = tracers.Tracer("unix:///nobody.sock")
    monkeypatch.setattr(step, "_tracer", tracer)
    yield tracer
    tracer.close()


def recorded(recorder: Recorder) -> Records:
    """The steps since it was asked last."""
    return to_records(recorder.ring.take(), recorder.mark_ns, resident_bytes=None)


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

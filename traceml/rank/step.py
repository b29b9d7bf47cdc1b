"""What a script may say itself, where a step is and what sets it apart, and what it may ask."""

import json
import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from traceml.rank.notice import not_tracing
from traceml.wire import ENDPOINT_VARIABLE
from traceml.wire.tags import Tag

if TYPE_CHECKING:
    import torch

    from traceml.rank.tracer import Tracer


def _start() -> "Tracer | None":
    """The tracer of this process; None outside a traced run, and where it can't be had."""
    endpoint = os.environ.get(ENDPOINT_VARIABLE)
    if not endpoint:
        return None
    try:
        from traceml.rank.tracer import Tracer

        return Tracer(endpoint)
    except Exception as error:  # say, a file of the user's that is named like one we need
        not_tracing(error)
        return None


_tracer = _start()


def trace_step(model: "torch.nn.Module | None" = None) -> AbstractContextManager[Any]:
    """The scope of one training step: `with trace_step(model): ...`.

    The step ends where the scope ends, and began where the one before ended, so
    the fetch and whatever runs between two scopes belong to it. `model` is the
    module whose call is the forward pass. Does nothing outside a traced run.
    """
    if _tracer is None:
        return nullcontext()
    _tracer.model = model
    return _tracer


def step_tag(name: str) -> None:
    """Leave the training step under way out of the statistics, and count it under a tag.

    `name` is eval, checkpoint, compile or warmup; anything else counts as `user`.
    TraceML finds these by itself where torch does the work; say it where yours does.
    """
    if _tracer is not None:
        _tracer.tag(Tag.named(name))


def summary() -> dict[str, float]:
    """The run so far in numbers by name, for W&B, MLflow, TensorBoard; fresh at each call.

    `traceml/window/...` is of the latest steps, `traceml/run/...` of all. Empty outside a
    traced run, before its first step, and where no sidecar answers.
    """
    return _asked(flat=True) or {}


def final_summary() -> dict[str, Any] | None:
    """The run so far, as `final_summary.json` will tell it; fresh at each call.

    None outside a traced run, before its first step, and where no sidecar answers.
    """
    return _asked(flat=False)


def _asked(flat: bool) -> dict[str, Any] | None:
    """What the sidecar answers; the training waits for it, and for nothing else of ours."""
    try:
        answer = _tracer.ask(flat) if _tracer is not None else None
        told: dict[str, Any] | None = json.loads(answer) if answer else None
        return told
    except Exception:  # whatever it is, it is not the training's error
        if _tracer is not None:
            _tracer.recorder.faults += 1
        return None

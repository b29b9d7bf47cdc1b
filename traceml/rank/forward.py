"""Timing the forward of the root module, leaving the module as it was.

`nn.Module.__call__` prefers the instance's `_compiled_call_impl` (the place
`Module.compile()` uses). It is the one spot that costs under a microsecond,
that torch itself drops from pickles and copies, and that dynamo looks through.
"""

import weakref
from threading import get_ident
from typing import Any

import torch

from traceml.rank.recorder import Recorder
from traceml.rank.slots import FORWARD, TAGS
from traceml.wire.columns import Tag

PLACE = "_compiled_call_impl"


def is_timed(module: torch.nn.Module, timed: Any) -> bool:
    """Whether calls of this module go through `timed`."""
    return module.__dict__.get(PLACE) is timed


class Root:
    """The module whose calls are the step's forward."""

    __slots__ = ("_module", "_recorder", "timed")

    def __init__(self, module: torch.nn.Module, recorder: Recorder) -> None:
        # Weak, so that a model the user deletes is freed at once, not by the collector.
        self._module = weakref.ref(module)
        self._recorder = recorder
        self.timed: Any = None

    def attach(self) -> None:
        """Time this module from the next call on; also after `compile()` displaced us."""
        module = self._module()
        if module is None:
            return
        self.timed = self._wrap(module.__dict__.get(PLACE))
        # Past Module.__setattr__, which a compiled module forwards to the original.
        module.__dict__[PLACE] = self.timed

    def detach(self) -> None:
        """Leave the module untimed."""
        module = self._module()
        if self.timed is not None and module is not None and is_timed(module, self.timed):
            module.__dict__[PLACE] = self.timed.__wrapped__

    def _wrap(self, compiled: Any) -> Any:
        recorder, reference = self._recorder, self._module
        is_compiling = torch.compiler.is_dynamo_compiling
        is_grad_enabled = torch.is_grad_enabled

        called = False

        def forward(*args: Any, **kwargs: Any) -> Any:
            nonlocal called
            module = reference()
            call = compiled or module._call_impl  # type: ignore[union-attr]
            if is_compiling() or get_ident() != recorder.thread:
                return call(*args, **kwargs)
            if not called:
                called = True
                recorder.measures(FORWARD)
            if not (module.training or is_grad_enabled()):  # type: ignore[union-attr]
                recorder.slots[TAGS] |= Tag.EVAL
            previous = recorder.enter(FORWARD)
            try:
                return call(*args, **kwargs)
            finally:
                recorder.leave_forward(previous)

        forward.__wrapped__ = compiled  # type: ignore[attr-defined]
        return forward

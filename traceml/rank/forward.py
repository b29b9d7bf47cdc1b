"""Timing the forward of a root module, leaving the module as it was.

`nn.Module.__call__` prefers the instance's `_compiled_call_impl` (the place
`Module.compile()` uses). It is the one spot that costs under a microsecond and
that dynamo passes by.
"""

import functools
import weakref
from functools import partial
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

import torch

from traceml.rank.events import (
    FORWARD_END,
    FORWARD_EVAL,
    FORWARD_FROZEN,
    FORWARD_TRAIN,
    FORWARD_UNSURE,
    Recorder,
)
from traceml.rank.patches import Patches

PLACE = "_compiled_call_impl"


class Timed(partial[Any]):
    """What stands in that place. In a copy or a pickle nothing does: torch drops it from
    most, but not from every module's (an LSTM's, say), and it belongs to one module alone.
    """

    def __reduce__(self) -> Any:
        return type(None), ()

    def __deepcopy__(self, _: Any) -> None:
        return None


def forget_in_copies(patches: Patches) -> None:
    """Have torch drop it from shallow copies too, and from the replicas of a DataParallel."""

    def dropping(original: Any) -> Any:
        @functools.wraps(original)
        def copies(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            made = original(self, *args, **kwargs)
            copy = self if made is None else made
            if isinstance(copy.__dict__.get(PLACE), Timed):
                del copy.__dict__[PLACE]
            return made

        return copies

    patches.replace(torch.nn.Module, "__setstate__", dropping)
    patches.replace(torch.nn.Module, "_replicate_for_data_parallel", dropping)


class Root:
    """A module whose calls are the step's forward."""

    __slots__ = (
        "_displaced",
        "_module",
        "_recorder",
        "_timed",
        "_trains",
        "is_watched",
        "was_called",
    )

    def __init__(self, module: torch.nn.Module, recorder: Recorder, watch: bool = False) -> None:
        # Weak, so that a model the user deletes is freed at once, not by the collector.
        self._module = weakref.ref(module)
        self._recorder = recorder
        self._timed: Timed | None = None
        self._displaced: Any = None
        self._trains = False  # it was called with gradients
        self.is_watched = watch  # to see whether it is called, and not from within another
        self.was_called = False

    @property
    def module(self) -> torch.nn.Module | None:
        """The module, while it lives."""
        return self._module()

    def is_attached(self) -> bool:
        """Whether calls of the module are timed."""
        module = self._module()
        return module is not None and module.__dict__.get(PLACE) is self._timed is not None

    def attach(self) -> None:
        """Time this module from the next call on; also after `compile()` displaced us."""
        self.detach()
        module = self._module()
        if module is not None:
            self._displaced = module.__dict__.get(PLACE)
            self._timed = Timed(self._timing(self._displaced))
            # Past Module.__setattr__, which a compiled module forwards to the original.
            module.__dict__[PLACE] = self._timed

    def detach(self) -> None:
        """Leave the module untimed."""
        module = self._module()
        if module is not None and self.is_attached():
            module.__dict__[PLACE] = self._displaced

    def _timing(self, compiled: Any) -> Any:
        reference, append = self._module, self._recorder.append
        is_compiling = torch.compiler.is_dynamo_compiling
        is_grad_enabled = torch.is_grad_enabled

        def forward(*args: Any, **kwargs: Any) -> Any:
            module = reference()
            call = compiled or module._call_impl  # type: ignore[union-attr]
            if is_compiling():
                return call(*args, **kwargs)
            if self.is_watched:
                return self._watch(forward, call, args, kwargs)
            code = FORWARD_EVAL + 2 if module.training else FORWARD_EVAL  # type: ignore[union-attr]
            code += is_grad_enabled()
            if not self._trains:
                code = self._consider(code)
            thread = get_ident()
            append((code, clock(), thread))
            try:
                return call(*args, **kwargs)
            finally:
                append((FORWARD_END, clock(), thread))

        return forward

    def _consider(self, code: int) -> int:
        """What a call is worth of a module that has not been called to train so far."""
        self._trains = code in (FORWARD_TRAIN, FORWARD_UNSURE)
        return FORWARD_FROZEN if code == FORWARD_EVAL else code

    def _watch(self, timed: Any, call: Any, args: Any, kwargs: Any) -> Any:
        """Time the call unless it comes from within another's, and note that there was one."""
        recorder = self._recorder
        if recorder.in_forward or get_ident() != recorder.thread:
            return call(*args, **kwargs)
        recorder.in_forward = self.was_called = True
        self.is_watched = False
        try:
            return timed(*args, **kwargs)
        finally:
            self.is_watched = True
            recorder.in_forward = False

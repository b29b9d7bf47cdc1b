"""The tracer: everything TraceML does in a training process, put together."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.util import Finalize
from threading import get_ident
from types import TracebackType
from typing import Any

import torch

from traceml.rank import hooks
from traceml.rank.channel import open_channel
from traceml.rank.forward import Root, is_timed
from traceml.rank.identity import identify, is_distributed
from traceml.rank.notice import not_tracing
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.recorder import NOBODY, Recorder
from traceml.rank.ring import Ring
from traceml.rank.sender import Sender
from traceml.rank.slots import COLLECTIVE_WAIT
from traceml.wire import ENDPOINT_VARIABLE


class Tracer(AbstractContextManager[None]):
    """Everything TraceML does in this process. Its context is the scope of one step.

    Hooks go in at once, so that the fetch before the first scope is seen; the
    sidecar is called with the first scope, so that a DataLoader worker which
    merely imports the script stays silent.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.recorder = Recorder(Ring())
        self._ready = ReadyMark(self.recorder)
        self._patches = Patches()
        self._root: Root | None = None
        self._timed: Any = object()  # what a timed root holds; no model holds this
        self.model: torch.nn.Module | None = None  # of the scope about to be entered
        self._sender: Sender | None = None
        self._depth = 0
        self._settled = False
        self.hook()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._inert
        )

    def __enter__(self) -> None:
        if get_ident() != self.recorder.thread and not self._moves_here():
            return
        self._depth += 1
        model, self.model = self.model, None
        try:
            if self._settled and (model is None or is_timed(model, self._timed)):
                return  # every step but the first
            self._settle(model)
        except Exception as error:
            self._fail(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        recorder = self.recorder
        if get_ident() != recorder.thread:
            return
        self._depth -= 1
        if self._depth:
            return
        if kind is None:
            recorder.finish()
        else:
            recorder.abandon()

    def hook(self) -> None:
        """Put the hooks into torch; the model's go in with the next scope."""
        hooks.install(self.recorder, self._ready, self._patches)

    def unhook(self) -> None:
        """Leave nothing of ours in torch or in the model."""
        self._ready.detach()
        if self._root is not None:
            self._root.detach()
        self._patches.undo()

    def close(self) -> None:
        """Stop tracing, for good, and part from the sidecar."""
        self.recorder.silence()
        self.unhook()
        if self._sender is not None:
            self._sender.close()

    def _moves_here(self) -> bool:
        """Whether training turns out to run on another thread than the one that imported us."""
        return self._sender is None and self.recorder.thread != NOBODY

    def _settle(self, model: torch.nn.Module | None) -> None:
        if self._sender is None:
            self._start(model)
        if model is not None and not is_timed(model, self._timed):
            self._adopt(model)
        self._settled = _hide_from_dynamo((*self._ready.callbacks, torch.autograd.backward))

    def _start(self, model: torch.nn.Module | None) -> None:
        self.recorder.thread = get_ident()
        if is_distributed():
            self.recorder.measures(COLLECTIVE_WAIT)
        self._sender = Sender(self.recorder, open_channel(self._endpoint), identify(model))
        self._sender.start()
        # A program that the training starts is no rank of it.
        os.environ.pop(ENDPOINT_VARIABLE, None)
        # Runs at exit of this process and of one that multiprocessing made.
        Finalize(None, self._at_exit, exitpriority=0)

    def _adopt(self, model: torch.nn.Module) -> None:
        if self._root is not None:
            self._root.detach()
        self._root = Root(model, self.recorder)
        self._root.attach()
        self._timed = self._root.timed
        if is_distributed():
            self._ready.attach(model)

    def _fail(self, error: Exception) -> None:
        self.recorder.faults += 1
        self.recorder.silence()
        if self._sender is None:  # nobody else will ever hear of it
            not_tracing(error)

    def _before_fork(self) -> None:
        if self._sender is not None:
            self._sender.hold()

    def _after_fork(self) -> None:
        if self._sender is not None:
            self._sender.release()

    def _inert(self) -> None:
        self.recorder.silence()
        self._sender = None

    def _at_exit(self) -> None:
        if self._sender is not None:
            self._sender.close()


def _hide_from_dynamo(hooks: tuple[Callable[..., Any], ...]) -> bool:
    """Where backward runs inside a compiled function, dynamo would compile our hooks too.

    False while dynamo is not there: to import it takes seconds, and most never need it.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    for hook in hooks:
        torch._dynamo.eval_frame.skip_code(hook.__code__)
    return True

"""The tracer: everything TraceML does in a training process, put together."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.util import Finalize
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from traceml.rank import allocator, device_clock, hooks, inject, waits
from traceml.rank import device as devices
from traceml.rank.batch import first_tensor
from traceml.rank.dynamo import aside, hide, hook_compilation
from traceml.rank.events import ABANDON, DISTRIBUTED, NOBODY, SCOPE, TAG, Recorder
from traceml.rank.imports import when_imported
from traceml.rank.notice import not_tracing
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.roots import Roots
from traceml.rank.world import is_distributed
from traceml.wire import ENDPOINT_VARIABLE

if TYPE_CHECKING:
    from traceml.rank.sender import Sender


ANSWER_SECONDS = 2.0  # that a script is kept waiting for an answer, at the most


class Tracer(AbstractContextManager[None]):
    """Everything TraceML does in this process. Its context is the scope of one step.

    Hooks go in at once; the sidecar is called with the first backward or scope,
    so that a process which merely imports torch, like a DataLoader worker, stays
    silent and never loads what sending needs.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self.recorder = Recorder(divertible=devices.may_be_used())
        self._ready = ReadyMark(self.recorder)
        self._roots = Roots(self.recorder, self._ready)
        self._patches = Patches()
        self.model: torch.nn.Module | None = None  # of the scope about to be entered
        self._sender: Sender | None = None
        self._depth = 0
        self._scoped = False  # the user says where steps end
        self.hook()
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._in_child,
        )

    def __enter__(self) -> None:
        recorder = self.recorder
        if get_ident() != recorder.thread and (self._sender or recorder.thread == NOBODY):
            return  # a scope on another thread than the training's
        self._depth += 1
        model, self.model = self.model, None
        try:
            if model is not None and not self._roots.is_timed(model):
                self._roots.choose(model)
            if not self._scoped:
                self._scope()
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
            recorder.mark(ABANDON)

    def tag(self, tag: int) -> None:
        """Leave the step under way out of the statistics."""
        if get_ident() == self.recorder.thread:
            self.recorder.note(TAG, tag)

    def ask(self, flat: bool) -> bytes | None:
        """What the sidecar says of the run by now, as JSON; None if it does not answer."""
        return None if self._sender is None else self._sender.ask(flat, ANSWER_SECONDS)

    def hook(self) -> None:
        """Put the hooks into torch, and into the models as they are called."""
        recorder, patches = self.recorder, self._patches
        hooks.install(recorder, self._ready, self._roots, self._train, patches)
        self._roots.hook(patches)
        when_imported("torch._dynamo", self._carefully(self._hook_dynamo))
        when_imported("torch.distributed.checkpoint", self._carefully(self._hook_checkpoints))
        when_imported(
            "torch.distributed._functional_collectives", self._carefully(self._hook_functional)
        )

    def unhook(self) -> None:
        """Leave nothing of ours in torch or in the models."""
        self._ready.detach()
        self._roots.release()
        self._patches.undo()

    def close(self) -> None:
        """Stop tracing, for good, and part from the sidecar."""
        self.recorder.silence()
        self.unhook()
        self._at_exit()

    def _scope(self) -> None:
        self._train()
        self._scoped = True
        self.recorder.mark(SCOPE)

    def _train(self, tensors: Any = ()) -> None:
        """This thread trains, and these are some of the tensors that it trains with."""
        if self._sender is not None or self.recorder.thread == NOBODY:
            return
        if get_worker_info() is not None:  # of a DataLoader: whatever it does, it is no rank
            self.recorder.silence()
            return
        self.recorder.thread = get_ident()
        try:
            aside(lambda: self._send(tensors))
        except Exception as error:
            self._fail(error)

    def _send(self, tensors: Any) -> None:
        from traceml.rank.channel import open_channel
        from traceml.rank.identity import FSDP, identify
        from traceml.rank.sender import Sender

        if is_distributed():
            self.recorder.note(DISTRIBUTED)
        self._roots.look()
        device = devices.trained_on(self._roots.modules, first_tensor(tensors))
        self._keep_time(device)
        allocator.watch(self.recorder, device)
        channel = open_channel(self._endpoint)
        identity = identify(self._roots.modules, device)
        if identity.strategy == FSDP and self.recorder.device is not None:
            waits.tell_unseen(self.recorder, waits.SHARDED)  # until one is seen
        self._sender = Sender(self.recorder, channel, identity, self._endpoint)
        self._sender.start()
        # A program that the training starts is no rank of it.
        os.environ.pop(ENDPOINT_VARIABLE, None)
        inject.leave_environment()
        # Runs at exit of this process and of one that multiprocessing made.
        Finalize(None, self._at_exit, exitpriority=0)

    def _carefully(self, hook: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same, but an error of ours is not one of the user's import."""

        def careful(module: Any) -> None:
            try:
                hook(module)
            except Exception:
                self.recorder.faults += 1

        return careful

    def _hook_checkpoints(self, checkpoint: Any) -> None:
        hooks.hook_checkpoints(checkpoint, self.recorder, self._patches)

    def _hook_functional(self, collectives: Any) -> None:
        waits.hook_functional_waits(collectives, self.recorder, self._patches)

    def _keep_time(self, device: torch.device) -> None:
        """Have the device keep time too, and see what makes it wait."""
        device_clock.keep_time(self.recorder, device)
        if self.recorder.device is not None:
            module = devices.module_of(device)
            waits.hook_device_waits(module, self.recorder, self._patches)
            device_clock.hook_captures(module, self.recorder.device, self._patches)

    def _hook_dynamo(self, dynamo: Any) -> None:
        hook_compilation(dynamo, self.recorder, self._patches)
        hide(dynamo, (*self._ready.callbacks, torch.autograd.backward, *device_clock.CALLBACKS))
        hide(dynamo, allocator.CALLBACKS)

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

    def _in_child(self) -> None:
        """The child of a rank is inert; before training began it may become one itself."""
        if self._sender is not None:
            self._sender.disown()
            self._sender = None
            self.recorder.silence()
            self.unhook()

    def _at_exit(self) -> None:
        if self._sender is None:
            return
        if self.recorder.device is not None and get_ident() == self.recorder.thread:
            self.recorder.device.settle()
        self._sender.close()

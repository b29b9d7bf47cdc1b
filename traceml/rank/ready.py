"""The moment the last local gradient is ready: where own work ends and waiting begins.

A callback queued on the autograd engine from a parameter's post-accumulate hook
runs after all own work of that backward and before DDP waits for its exchange.
Hooking every parameter costs hundreds of microseconds, so all are hooked for
one backward only, to learn which fires last; that one keeps its hook.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from traceml.rank.events import READY, UNMARKED, Recorder

_LEARNING_ATTEMPTS = 3

_queue_callback = torch.autograd.Variable._execution_engine.queue_callback


class ReadyMark:
    """Marks that moment in every backward, or says that it could not.

    Attached to nothing it does nothing. A backward without its mark makes the
    step's backward and wait absent and is learned from again; if learning keeps
    failing, the mark hangs on the loss instead, which costs more.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.attached = False
        self._recorder = recorder
        self._parameters: list[weakref.ref[torch.Tensor]] = []
        self._handles: list[Any] = []
        self._last: weakref.ref[torch.Tensor] | None = None
        self._prepare: Callable[[Any], None] | None = None
        self._depth = 0
        self._marked = False
        self._attempts = 0

    def attach(self, modules: Iterable[torch.nn.Module]) -> None:
        """Mark backwards that reach a parameter of these modules."""
        self._release()
        self._attempts = 0
        parameters = {id(p): p for module in modules for p in module.parameters()}
        self._parameters = [weakref.ref(parameter) for parameter in parameters.values()]
        self._prepare = self._learn
        self.attached = True

    def detach(self) -> None:
        """Leave all parameters unhooked and backwards unmarked."""
        self._release()
        self.attached = False
        self._depth = 0

    @property
    def callbacks(self) -> tuple[Callable[..., None], ...]:
        """What torch calls during a backward."""
        return self._fired, self._queue, self._mark

    def begin(self, arguments: tuple[Any, ...]) -> None:
        """A backward is about to run; `arguments` are its own."""
        self._depth += 1
        if self._depth > 1:
            return
        self._marked = False
        if self._prepare is None:
            return  # the learned parameter keeps its hook, or there is none
        try:
            self._prepare(arguments)
        except Exception:
            self._fail()

    def end(self) -> None:
        """A backward has run."""
        self._depth -= 1
        if self._depth == 0 and not self._marked:
            self._recorder.note(UNMARKED)
            try:
                self._relearn()
            except Exception:
                self._fail()

    def _learn(self, _: Any) -> None:
        if self._handles:
            return
        for reference in self._parameters:
            parameter = reference()
            if parameter is not None and parameter.requires_grad:
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._fired))

    def _fired(self, parameter: torch.Tensor) -> None:
        self._last = weakref.ref(parameter)

    def _relearn(self) -> None:
        learned = self._last() if self._last is not None else None
        self._release()
        self._attempts += 1
        if self._attempts > _LEARNING_ATTEMPTS + 1:
            self._prepare = None  # out of ideas: waits stay absent
        elif self._attempts > _LEARNING_ATTEMPTS:
            self._prepare = self._hook_loss
        elif learned is None:
            self._prepare = self._learn
        else:
            self._handles.append(learned.register_post_accumulate_grad_hook(self._queue))
            self._prepare = None

    def _hook_loss(self, arguments: tuple[Any, ...]) -> None:
        self._release()
        tensors = arguments[0] if arguments else ()
        loss = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        node = getattr(loss, "grad_fn", None)
        if node is not None:
            self._handles.append(node.register_prehook(self._queue))

    def _queue(self, *_: Any) -> None:
        try:
            _queue_callback(self._mark)
        except Exception:
            self._fail()

    def _mark(self) -> None:
        # In a nested backward (reentrant checkpointing) own work is still to come.
        if self._depth == 1:
            self._recorder.mark(READY)
            self._marked = True

    def _fail(self) -> None:
        """Nothing of ours may raise into a backward: count it, and mark no more."""
        self._recorder.faults += 1
        self._prepare = None

    def _release(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._last = None

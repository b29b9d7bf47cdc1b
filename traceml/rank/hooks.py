"""Where torch is hooked: fetch, backward, optimizer.

A hook writes down that something began or ended, and does what was asked for; it
looks at nothing but the shape of a batch. Inside compiled code it does nothing.
"""

import functools
import weakref
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

import torch
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader

from traceml.rank.batch import shape_of
from traceml.rank.copies import hook_copies
from traceml.rank.device import may_be_used
from traceml.rank.dynamo import aside
from traceml.rank.events import (
    BACKWARD,
    BACKWARD_END,
    BATCH,
    FETCH,
    FETCH_END,
    FETCH_EVAL,
    GRADIENT,
    GRADIENT_END,
    OPTIMIZER,
    OPTIMIZER_END,
    SAVED,
    TAG,
    WHICH,
    ZERO_GRAD,
    Recorder,
)
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.roots import Roots
from traceml.rank.waits import hook_waits

Make = Callable[[Any], Any]
Train = Callable[[Any], None]


def install(
    recorder: Recorder,
    ready: ReadyMark,
    roots: Roots,
    train: Train,
    patches: Patches,
) -> None:
    """Hook torch in this process, for all models.

    `train` is called before the first backward or step, on the thread that calls it, with
    tensors that it is about.
    """
    patches.replace(dataloader.DataLoader, "__iter__", _iterate(recorder))
    patches.replace(dataloader._BaseDataLoaderIter, "__next__", _fetch(recorder))
    patches.replace(torch.autograd, "backward", _backward(recorder, ready, roots, train))
    patches.replace(torch.autograd, "grad", _around(recorder, GRADIENT, GRADIENT_END))
    _tell_torchscript(torch.autograd.backward, "aten::backward")
    _tell_torchscript(torch.autograd.grad, "aten::grad")
    _Optimizers(recorder, roots, train).hook(patches)
    patches.replace(torch, "save", _tagging(recorder, SAVED))
    hook_waits(recorder, patches)
    if may_be_used():
        hook_copies(recorder, patches)


def hook_checkpoints(checkpoint: Any, recorder: Recorder, patches: Patches) -> None:
    """Tag steps in which this module, `torch.distributed.checkpoint`, saves."""
    for name in ("save", "async_save"):
        patches.replace(checkpoint, name, _tagging(recorder, SAVED))


def _tell_torchscript(stand_in: Any, operator: str) -> None:
    """It knows these functions by their identity, and would try to compile ours."""
    register = getattr(torch.jit._builtins, "_register_builtin", None)
    if register is not None:
        register(stand_in, operator)


def _iterate(recorder: Recorder) -> Make:
    """Starting an epoch, which may start workers."""
    append = recorder.append

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(self: Any) -> Any:  # noqa: N807 - it stands in for the loader's own
            thread = get_ident()
            append((FETCH if torch.is_grad_enabled() else FETCH_EVAL, clock(), thread))
            try:
                return original(self)
            finally:
                append((FETCH_END, clock(), thread))

        return __iter__

    return make


def _fetch(recorder: Recorder) -> Make:
    def make(original: Any) -> Any:
        @functools.wraps(original)
        def __next__(  # noqa: N807 - it stands in for the iterator's own
            self: Any,
            original: Any = original,
            append: Any = recorder.append,
            clock: Any = clock,
            ident: Any = get_ident,
            is_grad_enabled: Any = torch.is_grad_enabled,
        ) -> Any:
            thread = ident()
            append((FETCH if is_grad_enabled() else FETCH_EVAL, clock(), thread))
            try:
                batch = original(self)
            finally:
                append((FETCH_END, clock(), thread))
            try:
                append((BATCH, shape_of(batch), thread))
            except Exception:
                recorder.faults += 1
            return batch

        return __next__

    return make


def _backward(recorder: Recorder, ready: ReadyMark, roots: Roots, train: Train) -> Make:
    append = recorder.append
    is_compiling = torch.compiler.is_dynamo_compiling
    training = False

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            nonlocal training
            if is_compiling():
                return original(*args, **kwargs)
            if not training:
                training = True
                aside(lambda: train(args))  # a frame that holds tensors would be compiled
            now, thread, allocator = clock(), get_ident(), recorder.allocator
            append((BACKWARD, now, thread))
            if allocator is not None and now >= allocator.due_ns and thread == recorder.thread:
                allocator.backward_begins()
            marking = ready.attached and thread == recorder.thread
            if marking:
                ready.begin(args)
            try:
                return original(*args, **kwargs)
            finally:
                if marking:
                    ready.end()
                append((BACKWARD_END, clock(), thread))
                if recorder.attention and thread == recorder.thread:
                    roots.attend_to_backward()

        return backward

    return make


def _around(recorder: Recorder, begin: int, end: int) -> Make:
    """Write down when a function is called and when it returns."""
    append = recorder.append
    is_compiling = torch.compiler.is_dynamo_compiling

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def around(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            thread = get_ident()
            append((begin, clock(), thread))
            try:
                return original(*args, **kwargs)
            finally:
                append((end, clock(), thread))

        return around

    return make


def _tagging(recorder: Recorder, tag: int) -> Make:
    """Tag the step in which a function is called on the training thread."""

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def tagging(*args: Any, **kwargs: Any) -> Any:
            if get_ident() == recorder.thread:
                recorder.note(TAG, tag)
            return original(*args, **kwargs)

        return tagging

    return make


class _Optimizers:
    """The steps of all optimizers, told apart by numbers."""

    def __init__(self, recorder: Recorder, roots: Roots, train: Train) -> None:
        self._recorder = recorder
        self._roots = roots
        self._train = train
        self._known: dict[int, tuple[int, Any]] = {}  # by id while it lives: number, weak reference
        self._numbered = 0
        self._last = 0  # the id of the optimizer that stepped last
        self._until_one_steps = Patches()

    def hook(self, patches: Patches) -> None:
        """Hook every optimizer's step and, until one is seen, what tells of updates by hand."""
        before, after = self._before(), self._after()
        patches.on_undo(optimizers.register_optimizer_step_pre_hook(before).remove)
        patches.on_undo(optimizers.register_optimizer_step_post_hook(after).remove)
        # A scaler that skips the optimizer's step ends the training step all the same.
        patches.replace(GradScaler, "step", lambda original: self._scaled(original, before, after))
        patches.replace(GradScaler, "update", _around(self._recorder, OPTIMIZER, OPTIMIZER_END))
        temporary = self._until_one_steps
        temporary.replace(Optimizer, "__init__", self._made)
        for owner in (Optimizer, torch.nn.Module):
            temporary.replace(owner, "zero_grad", self._zeroed)
        patches.on_undo(temporary.undo)

    def _before(self) -> Callable[..., None]:
        recorder = self._recorder

        def before(
            optimizer: Any,
            args: Any = (),
            kwargs: Any = None,
            self: Any = self,
            append: Any = recorder.append,
            clock: Any = clock,
            ident: Any = get_ident,
            is_compiling: Any = torch.compiler.is_dynamo_compiling,
        ) -> None:
            if is_compiling():
                return
            if id(optimizer) != self._last and ident() == recorder.thread:
                try:
                    self._turn_to(optimizer)
                except Exception:  # say, something optimizer-like that can't be referred to weakly
                    recorder.faults += 1
            append((OPTIMIZER, clock(), ident()))

        return before

    def _after(self) -> Callable[..., None]:
        def after(
            optimizer: Any,
            args: Any = (),
            kwargs: Any = None,
            recorder: Any = self._recorder,
            append: Any = self._recorder.append,
            clock: Any = clock,
            ident: Any = get_ident,
            is_compiling: Any = torch.compiler.is_dynamo_compiling,
        ) -> None:
            if is_compiling():
                return
            now, allocator = clock(), recorder.allocator
            append((OPTIMIZER_END, now, ident()))
            if allocator is not None and now >= allocator.due_ns and ident() == recorder.thread:
                allocator.optimizer_ends()
            if recorder.attention and ident() == recorder.thread:
                self._roots.attend(id(optimizer))

        return after

    def _turn_to(self, optimizer: Any) -> None:
        """Say which optimizer the next entries are about."""
        key = id(optimizer)
        if key not in self._known:
            self._meet(optimizer)
        self._last = key
        self._recorder.note(WHICH, self._known[key][0])

    def _meet(self, optimizer: Any) -> None:
        key = id(optimizer)
        self._known[key] = self._numbered, weakref.ref(optimizer, lambda _: self._forget(key))
        self._numbered += 1
        self._until_one_steps.undo()
        aside(lambda: self._train([group["params"] for group in optimizer.param_groups]))
        self._roots.look()

    def _forget(self, key: int) -> None:
        self._known.pop(key, None)
        if self._last == key:
            self._last = 0

    def _scaled(self, original: Any, before: Any, after: Any) -> Any:
        @functools.wraps(original)
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before(optimizer)
            try:
                return original(self, optimizer, *args, **kwargs)
            finally:
                after(optimizer)

        return step

    def _made(self, original: Any) -> Any:
        @functools.wraps(original)
        def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807 - the optimizer's own
            self._recorder.optimizers_made += 1
            original(*args, **kwargs)

        return __init__

    def _zeroed(self, original: Any) -> Any:
        recorder = self._recorder
        is_compiling = torch.compiler.is_dynamo_compiling

        @functools.wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and get_ident() == recorder.thread:
                recorder.mark(ZERO_GRAD)
            return original(*args, **kwargs)

        return zero_grad

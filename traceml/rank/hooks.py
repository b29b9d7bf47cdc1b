"""Where torch is hooked: fetch, copies to the device, backward, optimizer, collectives.

Each hook is a pass-through on any thread but the training thread, so a user's
own prefetch or checkpoint thread is never mistaken for the step.
"""

import functools
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any

import torch
from torch.optim import optimizer as optimizers
from torch.utils.data import dataloader

from traceml.rank.batch import shape_of
from traceml.rank.patches import Patches
from traceml.rank.ready import ReadyMark
from traceml.rank.recorder import Recorder
from traceml.rank.slots import COLLECTIVE_WAIT, DATALOADER, ELEMENTS, H2D, OPTIMIZER, SAMPLES


def install(recorder: Recorder, ready: ReadyMark, patches: Patches) -> None:
    """Hook torch in this process, for all models."""
    patches.replace(dataloader._BaseDataLoaderIter, "__next__", _fetch(recorder))
    patches.replace(torch.autograd, "backward", _backward(recorder, ready))
    _hook_optimizers(recorder, patches)
    if torch.distributed.is_available():
        wait = _collective(recorder)
        patches.replace(torch._C._distributed_c10d.Work, "wait", wait)
        patches.replace(torch.distributed, "_broadcast_coalesced", wait)
    if _is_built_for_accelerators():
        hook_copies(recorder, patches)


def hook_copies(recorder: Recorder, patches: Patches) -> None:
    """Time copies from host to device."""
    for name in ("to", "cuda"):
        patches.replace(torch.Tensor, name, _copy(recorder))


def _is_built_for_accelerators() -> bool:
    """Whether this torch could use one. Asking for a device would start its driver,
    and a process that forks after that can't use it in its children.
    """
    kinds = (getattr(torch.version, kind, None) for kind in ("cuda", "hip", "xpu"))
    return any(kinds) or bool(torch.backends.mps.is_built())


def _fetch(recorder: Recorder) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        seen = False

        @functools.wraps(original)
        def __next__(self: Any) -> Any:  # noqa: N807 - it stands in for the iterator's own
            nonlocal seen
            if get_ident() != recorder.thread:
                return original(self)
            if not seen:
                seen = True
                recorder.measures(DATALOADER, SAMPLES, ELEMENTS)
            previous = recorder.enter(DATALOADER)
            try:
                batch = original(self)
            finally:
                recorder.leave(previous)
            try:
                shape = shape_of(batch)
                slots = recorder.slots
                slots[SAMPLES] += shape[0]
                slots[ELEMENTS] += shape.numel()
            except Exception:
                recorder.faults += 1
            return batch

        return __next__

    return make


def _copy(recorder: Recorder) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        is_compiling = torch.compiler.is_dynamo_compiling
        seen = False

        @functools.wraps(original)
        def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            if is_compiling() or not self.is_cpu or get_ident() != recorder.thread:
                return original(self, *args, **kwargs)
            since = clock()
            copied = original(self, *args, **kwargs)
            if copied.is_cpu:
                return copied
            if not seen:
                seen = True
                recorder.measures(H2D)
            recorder.charge(H2D, since)
            return copied

        return copy

    return make


def _backward(recorder: Recorder, ready: ReadyMark) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        is_compiling = torch.compiler.is_dynamo_compiling

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or get_ident() != recorder.thread:
                return original(*args, **kwargs)
            previous = recorder.enter_backward()
            if ready.attached:
                ready.begin(args)
            try:
                return original(*args, **kwargs)
            finally:
                if ready.attached:
                    ready.end()
                recorder.leave(previous)

        return backward

    return make


def _hook_optimizers(recorder: Recorder, patches: Patches) -> None:
    around = OPTIMIZER

    def before(*_: Any) -> None:
        nonlocal around
        if get_ident() != recorder.thread:
            return
        recorder.optimizer_depth += 1
        if recorder.optimizer_depth == 1:
            around = recorder.enter(OPTIMIZER)

    def after(*_: Any) -> None:
        # A step that calls super().step() fires twice; one that raised, not at all.
        if get_ident() != recorder.thread or recorder.optimizer_depth == 0:
            return
        recorder.optimizer_depth -= 1
        if recorder.optimizer_depth == 0:
            recorder.leave(around)

    patches.on_undo(optimizers.register_optimizer_step_pre_hook(before).remove)
    patches.on_undo(optimizers.register_optimizer_step_post_hook(after).remove)


def _collective(recorder: Recorder) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        @functools.wraps(original)
        def wait(*args: Any, **kwargs: Any) -> Any:
            if get_ident() != recorder.thread:
                return original(*args, **kwargs)
            previous = recorder.enter(COLLECTIVE_WAIT)
            try:
                return original(*args, **kwargs)
            finally:
                recorder.leave(previous)

        return wait

    return make

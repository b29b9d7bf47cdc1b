"""Copies from host to device, seen where a tensor is asked for a method that makes one.

`torch.Tensor.to` is known by its identity: to tensor subclasses, to compilers, to pickle. So
the class goes on answering with its own method, and only what a tensor answers with is ours.
Torch's compiler looks at what the class holds: while it traces, nothing of ours is there.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from time import perf_counter_ns as clock
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from traceml.rank.dynamo import hide
from traceml.rank.events import COPY, COPY_END, Recorder
from traceml.rank.imports import when_imported
from traceml.rank.patches import Patches

UNSEEN = "Copies to the device are not measured: this torch's compiler could not be prepared."
NO_DEVICE = ("cpu", "meta")

IsCopy = Callable[..., bool]  # of the tensor, the arguments and the named ones


def hook_copies(recorder: Recorder, patches: Patches) -> None:
    """Time copies from host to device."""
    methods = _Methods(recorder)
    methods.put()
    patches.on_undo(methods.end)

    def live_with(dynamo: Any) -> None:
        try:
            methods.hide_from(dynamo, patches)
        except Exception:
            recorder.faults += 1
            recorder.notes[UNSEEN] = None
            methods.end()

    when_imported("torch._dynamo", live_with)


def _to_copies(
    tensor: Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtype: type = torch.dtype,
    device: type = torch.device,
    host: frozenset[Any] = frozenset({"cpu", torch.device("cpu")}),
) -> bool:
    """Whether `tensor.to(...)` copies to a device: seldom, and then it is slow itself."""
    target = args[0] if args else kwargs.get("device", kwargs.get("tensor"))
    kind = type(target)
    if kind is dtype or target is None or ((kind is device or kind is str) and target in host):
        return False
    return _is_device(target) and _ask(tensor, "is_cpu")


def _is_device(target: Any) -> bool:
    """Whether what is moved to this target is in a device's memory afterwards."""
    if isinstance(target, Tensor):
        return not (_ask(target, "is_cpu") or _ask(target, "is_meta"))
    if isinstance(target, torch.device):
        return target.type not in NO_DEVICE
    if isinstance(target, str):
        return not target.startswith(NO_DEVICE)
    return isinstance(target, int)


def _ask(tensor: Tensor, attribute: str) -> bool:
    """What a tensor says of itself, behind the back of its subclass and of modes."""
    if not has_torch_function_unary(tensor):
        return bool(getattr(tensor, attribute))
    with torch._C.DisableTorchFunction():
        return bool(getattr(tensor, attribute))


def _always_copies(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `tensor.cuda(...)` copies."""
    return _ask(tensor, "is_cpu")


METHODS: dict[str, IsCopy] = {"to": _to_copies, "cuda": _always_copies, "xpu": _always_copies}


def _timing(original: Any, is_copy: IsCopy, recorder: Recorder) -> Callable[..., Any]:
    append = recorder.append

    @functools.wraps(original)
    def method(tensor: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            timed = is_copy(tensor, args, kwargs) and _is_exposed(recorder)
        except Exception:
            recorder.faults += 1
            timed = False
        if not timed:
            return original(tensor, *args, **kwargs)
        thread = get_ident()
        append((COPY, clock(), thread))
        try:
            return original(tensor, *args, **kwargs)
        finally:
            append((COPY_END, clock(), thread))

    return method


def _is_exposed(recorder: Recorder) -> bool:
    """Whether the training is delayed by what is copied now."""
    return recorder.device is None or recorder.device.is_delayed_by_copy()


class _Method:
    """A method whose class answers with the original, and whose instances with ours."""

    __slots__ = ("before", "original", "ours")

    def __init__(self, name: str, is_copy: IsCopy, recorder: Recorder) -> None:
        self.before = Tensor.__dict__.get(name)  # None where it is inherited
        self.original = getattr(Tensor, name)
        self.ours = _timing(self.original, is_copy, recorder)

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        return self.original if tensor is None else MethodType(self.ours, tensor)


# What runs when a tensor's method is called, and must not be compiled on its own.
CALLED: tuple[Any, ...] = (_Method.__get__, _is_device, _is_exposed, _ask, *METHODS.values())


class _Methods:
    """Our methods of tensors: in place, except while a compiler traces."""

    def __init__(self, recorder: Recorder) -> None:
        self._methods = {
            name: _Method(name, is_copy, recorder)
            for name, is_copy in METHODS.items()
            if hasattr(Tensor, name)
        }
        self._tracing = 0
        self._lock = Lock()

    def put(self) -> None:
        """Have tensors answer with our methods."""
        for name, method in self._methods.items():
            if Tensor.__dict__.get(name) is method.before:  # else it is somebody else's by now
                setattr(Tensor, name, method)

    def take(self) -> None:
        """Leave the class as it was."""
        for name, method in self._methods.items():
            if Tensor.__dict__.get(name) is not method:
                continue
            if method.before is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, method.before)

    def end(self) -> None:
        """Leave the class as it was, for good."""
        self.take()
        self._methods = {}

    def hide_from(self, dynamo: Any, patches: Patches) -> None:
        """Stay out of sight of torch's compiler, which is this module."""
        if not self._methods:
            return
        # It may have been imported while ours were in place, and keeps what the class held then.
        known = getattr(dynamo.variables.tensor, "all_tensor_attrs", {})
        for name, method in self._methods.items():
            if known.get(name) is method:
                known[name] = method.before or method.original
        translator = dynamo.symbolic_convert.InstructionTranslator
        run = self._tracing_without_us(translator.run)
        hide(dynamo, (*CALLED, *(method.ours for method in self._methods.values())))
        patches.replace(translator, "run", lambda _: run)

    def _tracing_without_us(self, original: Any) -> Any:
        @functools.wraps(original)
        def run(translator: Any) -> Any:
            with self._away():
                return original(translator)

        return run

    @contextmanager
    def _away(self) -> Iterator[None]:
        with self._lock:
            self._tracing += 1
            self.take()
        try:
            yield
        finally:
            with self._lock:
                self._tracing -= 1
                if not self._tracing:
                    self.put()

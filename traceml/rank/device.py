"""The device that is trained on, and how to have events and streams of it."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

# Of the field's accelerators, those that keep no time of their own, or none that can be asked for.
_WITHOUT_EVENTS = ("cpu", "mps", "meta")


class Event(Protocol):
    """A point in a device's stream: `torch.Event`, `torch.cuda.Event`."""

    def record(self, stream: Any) -> object:
        """Put it at the end of what is queued."""

    def query(self) -> bool:
        """Whether the device has passed it."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this event to another."""


@dataclass(frozen=True, slots=True)
class Backend:
    """How events are had on one device."""

    make: Callable[[], Event]
    stream: Callable[[], Any]  # the one that this thread queues its work on
    is_capturing: Callable[[], bool]


def may_be_used() -> bool:
    """Whether this torch could use an accelerator. Asking for a device would start its
    driver, and a process that forks after that can't use it in its children.
    """
    kinds = (getattr(torch.version, kind, None) for kind in ("cuda", "hip", "xpu"))
    named = torch._C._get_privateuse1_backend_name() != "privateuseone"
    return named or any(kinds) or bool(torch.backends.mps.is_built())


def trained_on(models: Iterable[torch.nn.Module], loss: Any = None) -> torch.device:
    """The device that holds most of what is trained; where that is not known, the loss's."""
    sizes: Counter[torch.device] = Counter()
    for parameter in {id(p): p for model in models for p in model.parameters()}.values():
        sizes[parameter.device] += parameter.numel() * parameter.requires_grad
    return max(sizes, key=sizes.__getitem__, default=getattr(loss, "device", torch.device("cpu")))


def module_of(device: torch.device) -> Any:
    """What torch has for this kind of device: `torch.cuda`; None where it has nothing."""
    return getattr(torch, device.type, None)


def backend_of(device: torch.device) -> Backend | None:
    """How to have events on this device; None where the CPU's clock has to do."""
    module = module_of(device)
    if module is None or device.type in _WITHOUT_EVENTS:
        return None
    is_capturing = getattr(module, "is_current_stream_capturing", lambda: False)
    if hasattr(torch, "accelerator"):
        make = partial(torch.Event, device=device, enable_timing=True)
    else:
        make = partial(module.Event, enable_timing=True)
    return Backend(make, _current_stream(device), is_capturing)


def _current_stream(device: torch.device) -> Callable[[], Any]:
    """The cheapest way there is to ask for it: that is done often."""
    ask = getattr(torch._C, "_accelerator_getStream", None)
    if ask is not None and device.index is not None:
        return partial(ask, device.index)
    if hasattr(torch, "accelerator"):
        return partial(torch.accelerator.current_stream, device)
    return partial(module_of(device).current_stream, device)

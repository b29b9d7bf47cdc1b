"""What `torch.fake` offers: functions of the device that torch's own code asks for, shaped as
those of `torch.cuda`; and those with which a test says how it behaves and sees what it did.

Importing it loads the device, which `backend.register` makes known to torch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import SimpleNamespace
from typing import Any

import torch

from tests.accelerator.build import NAME, library
from tests.accelerator.entry import Entry


def _load() -> Any:
    loader = ExtensionFileLoader(NAME, str(library()))
    spec = spec_from_loader(NAME, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


_native = _load()
_INDEX = 0  # of the one device
_PROCESS = os.getpid()

# ---- what a test says and sees

work = _native.work  # (ms, label): a kernel on the current stream
mark = _native.mark  # (label): an entry in the log, which takes no time
drain = _native.drain  # waits until nothing is left to do, and is not counted
clear_log = _native.clear_log
recorded = _native.recorded  # events
queried = _native.queried  # events
synchronisations = _native.synchronisations
collectives = _native.collectives
set_copies = _native.set_copies  # (ms, blocking)
set_collectives = _native.set_collectives  # (ms, on_current_stream)
set_total_memory = _native.set_total_memory
set_allocation_retries = _native.set_allocation_retries
set_capturing = _native.set_capturing
Comm = _native.Comm


def log() -> list[Entry]:
    """All that streams have done so far, in the order of its ends on each."""
    return [Entry(*row) for row in _native.log()]


# ---- the device


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return os.getpid() != _PROCESS


def device_count() -> int:
    return 1


def current_device() -> int:
    return _INDEX


def set_device(device: Any) -> None:
    """There is no other."""


@contextmanager
def device(device: Any) -> Iterator[None]:
    yield


def get_device_properties(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(name="fake", total_memory=_native.total_memory())


def get_device_name(device: Any = None) -> str:
    return "fake"


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


# Random numbers are drawn on the host.


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(state)


def manual_seed(seed: int) -> None:
    """The host's generator was seeded."""


manual_seed_all = manual_seed

# ---- its streams and events

synchronize = _native.synchronize
is_current_stream_capturing = _native.is_current_stream_capturing


# No class of its own, because events of a subclass can't be compared with others.
Event = partial(torch.Event, device="fake")


class Stream(torch.Stream):
    """Its methods are written in Python, as those of `torch.cuda.Stream` are."""

    def __new__(cls, device: Any = None, priority: int = 0, **known: int) -> Any:
        if known:
            return super().__new__(cls, priority=priority, **known)
        return super().__new__(cls, device="fake", priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        event = event or Event()
        event.record(self)
        return event


def current_stream(device: Any = None) -> Any:
    return _stream(torch.accelerator.current_stream().stream_id)


def default_stream(device: Any = None) -> Any:
    return _stream(0)


def _stream(number: int) -> Any:
    kind = torch.accelerator.current_stream().device_type
    return Stream(stream_id=number, device_index=_INDEX, device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


@contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    before = torch.accelerator.current_stream()
    if stream is not None:
        set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


# ---- its memory


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    return dict(torch._C._accelerator_getDeviceStats(_INDEX))


def memory_stats(device: Any = None) -> dict[str, int]:
    return dict(torch.accelerator.memory_stats(_INDEX))


def memory_allocated(device: Any = None) -> int:
    return int(torch.accelerator.memory_allocated(_INDEX))


def max_memory_allocated(device: Any = None) -> int:
    return int(torch.accelerator.max_memory_allocated(_INDEX))


def reset_peak_memory_stats(device: Any = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_INDEX)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    free, total = torch.accelerator.get_memory_info(_INDEX)
    return int(free), int(total)


def empty_cache() -> None:
    torch.accelerator.empty_cache()

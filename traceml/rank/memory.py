"""How much memory this process or its device may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def limit_bytes(device: torch.device) -> int:
    """The device's memory or, on the CPU, what this process may use; 0 if nobody tells."""
    if device.type != "cpu":
        return _device_bytes(device)
    return min((*_cgroup_limits(), _host_bytes()))


def _device_bytes(device: torch.device) -> int:
    module: Any = getattr(torch, device.type, None)
    try:
        return int(module.get_device_properties(device).total_memory)
    except Exception:  # a backend may refuse in any way it likes
        return 0


def _host_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_limits() -> Iterator[int]:
    """Those of this process's group and of all around it. Where there is none, the file
    says `max` or a number that no machine has.
    """
    for file in _limit_files():
        with suppress(OSError, ValueError):
            yield int(file.read_text())


def _limit_files() -> Iterator[Path]:
    try:
        lines = _CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _upwards(_MOUNT, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(_MOUNT / "memory", path, "memory.limit_in_bytes")


def _upwards(mount: Path, path: str, name: str) -> Iterator[Path]:
    group = mount / path.lstrip("/")
    yield group / name
    while group != mount and mount in group.parents:
        group = group.parent
        yield group / name

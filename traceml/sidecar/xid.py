"""Xids: what NVIDIA's driver reports when a GPU, or a program on it, fails."""

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)

MOST_AT_ONCE = 100  # a broken GPU may report faster than we read


class XidWatch:
    """Counts the Xids of some GPUs as NVML's events tell them, without ever waiting for one."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._events: dict[str, Any] = {}  # by UUID; without those that do not tell their Xids
        self._untold: Counter[str] = Counter()

    def start(self, nvml: Any, handles: Mapping[str, Any]) -> None:
        """Watch these GPUs, by UUID."""
        self._nvml = nvml
        watched = {uuid: _subscribed(nvml, handle) for uuid, handle in handles.items()}
        self._events = {uuid: events for uuid, events in watched.items() if events is not None}

    def stop(self) -> None:
        """Watch none, before NVML is started anew; what was counted is kept."""
        for uuid, events in self._events.items():
            self.look(uuid)
            _release(self._nvml, events)
        self._events = {}

    def look(self, uuid: str) -> None:
        """Count what this GPU has reported since."""
        for code in _reported(self._nvml, self._events[uuid]) if uuid in self._events else ():
            log.warning("%s reported Xid %d", uuid, code)
            self._untold[uuid] += 1

    def take(self, uuid: str) -> int | None:
        """How many were counted and not taken yet; None of a GPU that does not tell."""
        return self._untold.pop(uuid, 0) if uuid in self._events else None


def _subscribed(nvml: Any, handle: Any) -> Any:
    try:
        events = nvml.nvmlEventSetCreate()
    except nvml.NVMLError:
        return None
    try:
        nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
    except nvml.NVMLError:
        _release(nvml, events)
        return None
    return events


def _release(nvml: Any, events: Any) -> None:
    with suppress(nvml.NVMLError):
        nvml.nvmlEventSetFree(events)


def _reported(nvml: Any, events: Any) -> list[int]:
    codes: list[int] = []
    with suppress(nvml.NVMLError):  # a timeout if there are no more
        while len(codes) < MOST_AT_ONCE:
            codes.append(nvml.nvmlEventSetWait(events, 0).eventData)
    return codes

"""The GPUs that the run may use, read through NVML."""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from traceml.sidecar.xid import XidWatch
from traceml.wire import telemetry_pb2 as pb

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0

# What NVML answers where a quantity is not to be had but the GPU is well: not supported, no
# permission, no such function, no data, another version of it, deprecated, not ready.
_UNANSWERED = frozenset({3, 4, 13, 21, 25, 26, 27})
_NO_PERMISSION = 4

# NVML's bits for what holds a GPU's clocks back. The others (idle, clocks set by the user,
# sync boost, display) are as somebody wanted it.
_HELD_BACK = {
    "sw_power_cap": 0x04,
    "hw_slowdown": 0x08,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake": 0x80,
}


@dataclass(frozen=True, slots=True)
class _Device:
    index: int
    uuid: str  # empty if even that could not be read
    handle: Any = None


class GpuSampler:
    """Reads the GPUs that CUDA_VISIBLE_DEVICES shows, as they were when NVML first answered.

    A GPU that can't be read counts as one failure and is left out until it can be. NVML
    answers at once but knows no timeout: where the driver hangs, so does `sample`.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failures = 0
        self._shown = environ.get("CUDA_VISIBLE_DEVICES")
        self._clock = clock
        self._opened_at = -math.inf
        self._nvml: Any = None
        self._chosen: frozenset[str] | None = None  # None until NVML has answered
        self._devices: list[_Device] = []
        self._lost: set[str] = set()
        self._xids = XidWatch()

    def sample(self) -> list[pb.Gpu]:
        """The GPUs now, in NVML's order; what one of them does not tell is not set."""
        amiss = self._nvml is None or self._lost
        if amiss and self._clock() - self._opened_at >= RETRY_SECONDS:
            self._open()
        readings = [(device, self._read(device)) for device in self._devices]
        self._devices = [device for device, gpu in readings if gpu is not None]
        return [gpu for _, gpu in readings if gpu is not None]

    def _open(self) -> None:
        self._opened_at = self._clock()
        self._xids.stop()
        self._nvml, found = _connect()
        if self._chosen is None and self._nvml is not None:
            self._chosen = self._choose(found)
        chosen = self._chosen or frozenset()
        self._devices = [device for device in found if device.uuid in chosen]
        self._xids.start(self._nvml, {device.uuid: device.handle for device in self._devices})
        for uuid in sorted(chosen - {device.uuid for device in found}):
            self._lose(uuid, "not found")

    def _choose(self, found: Sequence[_Device]) -> frozenset[str]:
        shown = [found[place] for place in visible([d.uuid for d in found], self._shown)]
        for dead in (device for device in shown if not device.uuid):
            log.warning("cannot read GPU %d", dead.index)
            self.failures += 1
        return frozenset(device.uuid for device in shown if device.uuid)

    def _read(self, device: _Device) -> pb.Gpu | None:
        self._xids.look(device.uuid)  # first: a GPU that is lost may have said why
        try:
            gpu = _reading(self._nvml, device)
        except self._nvml.NVMLError as error:
            self._lose(device.uuid, str(error))
            return None
        self._lost.discard(device.uuid)
        xids = self._xids.take(device.uuid)
        if xids is not None:
            gpu.xids = xids
        return gpu

    def _lose(self, uuid: str, reason: str) -> None:
        if uuid not in self._lost:
            log.warning("cannot read %s: %s", uuid, reason)
            self._lost.add(uuid)
            self.failures += 1


def visible(uuids: Sequence[str], shown: str | None) -> list[int]:
    """The places of those that CUDA would show, given the value of CUDA_VISIBLE_DEVICES.

    Numbers are taken as places in this order, as with CUDA_DEVICE_ORDER=PCI_BUS_ID; CUDA's
    own order differs from it only among GPUs of several kinds.
    """
    if shown is None:
        return list(range(len(uuids)))
    places: list[int] = []
    for entry in map(str.strip, shown.split(",")):
        if entry.startswith("MIG-"):
            continue
        place = _place(uuids, entry)
        if place is None:  # hides whatever is behind it
            break
        if place in places:  # CUDA then shows none at all
            return []
        places.append(place)
    return places


def _place(uuids: Sequence[str], entry: str) -> int | None:
    if entry.startswith("GPU-"):
        matching = [place for place, uuid in enumerate(uuids) if uuid.startswith(entry)]
        return matching[0] if len(matching) == 1 else None
    number = re.match(r"\+?[0-9]+", entry)  # CUDA, too, takes "1st" for 1
    place = int(number.group()) if number else len(uuids)
    return place if place < len(uuids) else None


def _connect() -> tuple[Any, list[_Device]]:
    """The binding, started anew, and the GPUs it finds; None and none without a driver.

    Anew, since after the driver was reloaded no old handle is good. GPUs that we have no
    permission to open are somebody else's.
    """
    try:
        import pynvml
    except ImportError:
        return None, []
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()
    try:
        pynvml.nvmlInit()
        devices = [_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        log.debug("no GPUs: %s", error)
        return None, []
    return pynvml, [device for device in devices if device is not None]


def _device(nvml: Any, index: int) -> _Device | None:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return _Device(index, nvml.nvmlDeviceGetUUID(handle), handle)
    except nvml.NVMLError as error:
        return None if error.value == _NO_PERMISSION else _Device(index, "")


def _reading(nvml: Any, device: _Device) -> pb.Gpu:
    ask = partial(_ask, nvml, device.handle)
    utilization = ask("nvmlDeviceGetUtilizationRates")
    memory = ask("nvmlDeviceGetMemoryInfo")
    reasons = ask(
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",  # its name before driver 535
    )
    temperature = ask(
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTemperatureV",  # takes its place from CUDA 14 on
        of=(nvml.NVML_TEMPERATURE_GPU,),
    )
    return pb.Gpu(
        index=device.index,
        uuid=device.uuid,
        utilization_ratio=utilization and utilization.gpu / 100,
        memory_used_bytes=memory and memory.used,
        memory_size_bytes=memory and memory.total,
        temperature_celsius=temperature,
        power_watts=_watts(ask("nvmlDeviceGetPowerUsage")),
        power_limit_watts=_watts(ask("nvmlDeviceGetEnforcedPowerLimit")),
        throttled=[name for name, bit in _HELD_BACK.items() if (reasons or 0) & bit],
        sm_clock_hertz=_hertz(ask("nvmlDeviceGetClockInfo", of=(nvml.NVML_CLOCK_SM,))),
        sm_clock_max_hertz=_hertz(ask("nvmlDeviceGetMaxClockInfo", of=(nvml.NVML_CLOCK_SM,))),
        ecc_corrected=_ecc_errors(nvml, device, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ecc_uncorrected=_ecc_errors(nvml, device, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )


def _ecc_errors(nvml: Any, device: _Device, kind: int) -> Any:
    """Those since the driver was loaded; None where memory is not checked."""
    counted = (kind, nvml.NVML_VOLATILE_ECC)
    return _ask(nvml, device.handle, "nvmlDeviceGetTotalEccErrors", of=counted)


def _ask(nvml: Any, handle: Any, *names: str, of: tuple[Any, ...] = ()) -> Any:
    """The answer of the first of these functions that gives one; None if none does.

    A function may be missing from an old driver or binding, or retired from a new one.
    """
    for name in names:
        function = getattr(nvml, name, None)
        if function is None:
            continue
        try:
            return function(handle, *of)
        except nvml.NVMLError as error:
            if error.value not in _UNANSWERED:
                raise
    return None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _hertz(megahertz: int | None) -> float | None:
    return None if megahertz is None else megahertz * 1e6

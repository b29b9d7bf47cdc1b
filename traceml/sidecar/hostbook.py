"""The machine beside the run, as it was sampled: now, lately, and over the run."""

from collections.abc import Iterable

from traceml.sidecar.checkpoint import saved
from traceml.snapshot import Gpu, GpuUse, Host, HostUse
from traceml.wire import telemetry_pb2 as pb

RECENT_SAMPLES = 30


@saved
class Mean:
    """A mean that may have nothing to be one of."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        """Take one value."""
        self._sum += value
        self._count += 1

    @property
    def value(self) -> float | None:
        """The mean so far."""
        return self._sum / self._count if self._count else None


@saved
class GpuHistory:
    """One GPU over its samples."""

    def __init__(self, index: int, uuid: str) -> None:
        self._index = index
        self._uuid = uuid
        self._samples = 0
        self._utilization = Mean()
        self._power = Mean()
        self._memory: float | None = None
        self._temperature: float | None = None
        self._throttled = 0
        self._reasons: dict[str, None] = {}

    def add(self, gpu: pb.Gpu) -> None:
        """Take one sample."""
        self._samples += 1
        if gpu.HasField("utilization_ratio"):
            self._utilization.add(gpu.utilization_ratio)
        if gpu.HasField("power_watts") and gpu.power_limit_watts > 0:
            self._power.add(gpu.power_watts / gpu.power_limit_watts)
        if gpu.HasField("memory_used_bytes") and gpu.memory_size_bytes > 0:
            self._memory = max(self._memory or 0.0, gpu.memory_used_bytes / gpu.memory_size_bytes)
        if gpu.HasField("temperature_celsius"):
            self._temperature = max(self._temperature or 0.0, gpu.temperature_celsius)
        self._throttled += bool(gpu.throttled)
        self._reasons.update(dict.fromkeys(gpu.throttled))

    def use(self) -> GpuUse:
        """What there is to say of it."""
        return GpuUse(
            index=self._index,
            uuid=self._uuid,
            utilization_ratio=self._utilization.value,
            memory_ratio=self._memory,
            temperature_celsius=self._temperature,
            power_ratio=self._power.value,
            throttled_ratio=self._throttled / self._samples if self._samples else 0.0,
            throttled=tuple(self._reasons),
        )


@saved
class History:
    """The host over its samples."""

    def __init__(self) -> None:
        self._samples = 0
        self._cpu = Mean()
        self._memory: float | None = None
        self._gpus: dict[str, GpuHistory] = {}

    def add(self, sample: pb.Sampled) -> None:
        """Take one sample."""
        self._samples += 1
        if sample.HasField("cpu_utilization_ratio"):
            self._cpu.add(sample.cpu_utilization_ratio)
        if sample.HasField("memory_used_bytes") and sample.memory_size_bytes > 0:
            used = sample.memory_used_bytes / sample.memory_size_bytes
            self._memory = max(self._memory or 0.0, used)
        for gpu in sample.gpus:
            self._gpus.setdefault(gpu.uuid, GpuHistory(gpu.index, gpu.uuid)).add(gpu)

    def use(self) -> HostUse:
        """What there is to say of it."""
        gpus = sorted((gpu.use() for gpu in self._gpus.values()), key=lambda gpu: gpu.index)
        return HostUse(self._samples, self._cpu.value, self._memory, tuple(gpus))


@saved
class HostBook:
    """All samples, the last of them one by one."""

    def __init__(self) -> None:
        self._recent: list[pb.Sampled] = []
        self._whole = History()
        self._failures = 0  # over all sidecars of the run; each counts from 0

    def add(self, sample: pb.Sampled) -> None:
        """Take one sample."""
        before = self._recent[-1].gpu_failures if self._recent else 0
        more = sample.gpu_failures - before
        self._failures += more if more >= 0 else sample.gpu_failures
        self._recent = [*self._recent[1 - RECENT_SAMPLES :], sample]
        self._whole.add(sample)

    def host(self) -> Host | None:
        """The host when it was last looked at."""
        if not self._recent:
            return None
        sample = self._recent[-1]
        return Host(
            cpu_utilization_ratio=_given(sample, "cpu_utilization_ratio"),
            memory_used_bytes=_given(sample, "memory_used_bytes"),
            memory_size_bytes=sample.memory_size_bytes,
            gpus=tuple(_gpu(gpu) for gpu in sample.gpus),
            gpu_failures=self._failures,
        )

    def window(self) -> HostUse:
        """The host lately."""
        return _history(self._recent).use()

    def whole(self) -> HostUse:
        """The host over the run."""
        return self._whole.use()


def _history(samples: Iterable[pb.Sampled]) -> History:
    history = History()
    for sample in samples:
        history.add(sample)
    return history


def _gpu(gpu: pb.Gpu) -> Gpu:
    return Gpu(
        index=gpu.index,
        uuid=gpu.uuid,
        utilization_ratio=_given(gpu, "utilization_ratio"),
        memory_used_bytes=_given(gpu, "memory_used_bytes"),
        memory_size_bytes=_given(gpu, "memory_size_bytes"),
        temperature_celsius=_given(gpu, "temperature_celsius"),
        power_watts=_given(gpu, "power_watts"),
        power_limit_watts=_given(gpu, "power_limit_watts"),
        throttled=tuple(gpu.throttled),
    )


def _given(message: pb.Sampled | pb.Gpu, field: str) -> float | None:
    return float(getattr(message, field)) if message.HasField(field) else None

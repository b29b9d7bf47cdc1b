"""The machine beside the run, as it was sampled: now, lately, and over the run."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from traceml.diagnosis.gpu import POWER_CAP
from traceml.sidecar.checkpoint import saved
from traceml.sidecar.limits import MAX_GPUS
from traceml.sidecar.shapes import Count, Most, RankNumber, Text
from traceml.snapshot import Gpu, GpuUse, Host, HostUse
from traceml.wire import telemetry_pb2 as pb

RECENT_SAMPLES = 30
MAX_REASONS = 16  # for which one is held back


@saved
class Mean:
    """A mean that may have nothing to be one of."""

    _sum: float
    _count: Count

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
class GpuErrors:
    """How many errors one GPU has had since its first sample."""

    _read: dict[Text, Count]  # the driver's own counts, which begin when it is loaded
    _counts: dict[Text, Count]

    def __init__(self) -> None:
        self._read = {}
        self._counts = {}

    def add(self, gpu: pb.Gpu) -> None:
        """Take one sample."""
        for kind in ("ecc_corrected", "ecc_uncorrected"):
            if gpu.HasField(kind):
                read = getattr(gpu, kind)
                self._count(kind, _gained(self._read.get(kind, read), read))
                self._read[kind] = read
        if gpu.HasField("xids"):
            self._count("xid", gpu.xids)

    def counts(self) -> dict[str, int]:
        """By kind; without those that the GPU does not tell."""
        return dict(self._counts)

    def _count(self, kind: str, more: int) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + more


@saved
class GpuHistory:
    """One GPU over its samples."""

    _index: RankNumber
    _uuid: Text
    _samples: Count
    _utilization: Mean
    _power: Mean
    _memory: float | None
    _temperature: float | None
    _throttled: Count
    _slowed: Count
    _reasons: Annotated[dict[Text, None], Most(MAX_REASONS)]
    _clock: Mean
    _clock_max: float | None
    _watts: Mean
    _errors: GpuErrors

    def __init__(self, index: int, uuid: str) -> None:
        self._index = index
        self._uuid = uuid
        self._samples = 0
        self._utilization = Mean()
        self._power = Mean()
        self._memory = None
        self._temperature = None
        self._throttled = 0
        self._slowed = 0
        self._reasons = {}
        self._clock = Mean()
        self._clock_max = None
        self._watts = Mean()
        self._errors = GpuErrors()

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
        is_idle = gpu.HasField("utilization_ratio") and gpu.utilization_ratio == 0
        if gpu.HasField("sm_clock_hertz") and not is_idle:  # idle, it lowers its clock by itself
            self._clock.add(gpu.sm_clock_hertz)
        if gpu.HasField("sm_clock_max_hertz"):
            self._clock_max = gpu.sm_clock_max_hertz
        if gpu.HasField("power_watts"):
            self._watts.add(gpu.power_watts)
        self._throttled += bool(gpu.throttled)
        self._slowed += any(reason != POWER_CAP for reason in gpu.throttled)
        for reason in gpu.throttled:
            if len(self._reasons) < MAX_REASONS:
                self._reasons[reason] = None
        self._errors.add(gpu)

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
            slowed_ratio=self._slowed / self._samples if self._samples else 0.0,
            sm_clock_hertz=self._clock.value,
            sm_clock_max_hertz=self._clock_max,
            power_watts=self._watts.value,
            errors=self._errors.counts(),
        )


@saved
class History:
    """The host over its samples."""

    _samples: Count
    _cpu: Mean
    _memory: float | None
    _gpus: Annotated[dict[Text, GpuHistory], Most(MAX_GPUS)]

    def __init__(self) -> None:
        self._samples = 0
        self._cpu = Mean()
        self._memory = None
        self._gpus = {}

    def add(self, sample: pb.Sampled) -> None:
        """Take one sample."""
        self._samples += 1
        if sample.HasField("cpu_utilization_ratio"):
            self._cpu.add(sample.cpu_utilization_ratio)
        if sample.HasField("memory_used_bytes") and sample.memory_size_bytes > 0:
            used = sample.memory_used_bytes / sample.memory_size_bytes
            self._memory = max(self._memory or 0.0, used)
        for gpu in sample.gpus:
            if gpu.uuid in self._gpus or len(self._gpus) < MAX_GPUS:
                self._gpus.setdefault(gpu.uuid, GpuHistory(gpu.index, gpu.uuid)).add(gpu)

    def use(self) -> HostUse:
        """What there is to say of it."""
        gpus = sorted((gpu.use() for gpu in self._gpus.values()), key=lambda gpu: gpu.index)
        return HostUse(self._samples, self._cpu.value, self._memory, tuple(gpus))


@saved
class HostBook:
    """All samples, the last of them one by one."""

    _recent: Annotated[list[pb.Sampled], Most(RECENT_SAMPLES)]
    _whole: History
    _failures: Count  # over all sidecars of the run; each counts from 0

    def __init__(self) -> None:
        self._recent = []
        self._whole = History()
        self._failures = 0

    def add(self, sample: pb.Sampled) -> None:
        """Take one sample."""
        before = self._recent[-1].gpu_failures if self._recent else 0
        self._failures += _gained(before, sample.gpu_failures)
        self._recent = [*self._recent[1 - RECENT_SAMPLES :], sample]
        self._whole.add(sample)

    def messages(self) -> list[pb.Sampled]:
        """The last samples."""
        return self._recent

    def host(self) -> Host | None:
        """The host when it was last looked at."""
        if not self._recent:
            return None
        sample = self._recent[-1]
        errors = {gpu.uuid: gpu.errors for gpu in self._whole.use().gpus}
        return Host(
            cpu_utilization_ratio=_given(sample, "cpu_utilization_ratio"),
            memory_used_bytes=_given(sample, "memory_used_bytes"),
            memory_size_bytes=sample.memory_size_bytes,
            gpus=tuple(_gpu(gpu, errors.get(gpu.uuid, {})) for gpu in sample.gpus),
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


def _gained(before: int, now: int) -> int:
    """How much a count has grown that may have begun anew meanwhile."""
    return now - before if now >= before else now


def _gpu(gpu: pb.Gpu, errors: Mapping[str, int]) -> Gpu:
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
        sm_clock_hertz=_given(gpu, "sm_clock_hertz"),
        sm_clock_max_hertz=_given(gpu, "sm_clock_max_hertz"),
        errors=errors,
    )


def _given(message: pb.Sampled | pb.Gpu, field: str) -> float | None:
    return float(getattr(message, field)) if message.HasField(field) else None

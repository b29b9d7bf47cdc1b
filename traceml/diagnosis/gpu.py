"""The ranks' GPUs against each other: which of them is slow, and what is known of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from traceml import units
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.straggler import NO_CAUSE, Cause, lower_median
from traceml.snapshot import GpuUse, HostUse, RankState

POWER_CAP = "sw_power_cap"  # what holds back every GPU that works as hard as it may

_COMPARED: dict[str, Callable[[GpuUse], float | None]] = {
    "sm_clock_hertz": lambda gpu: gpu.sm_clock_hertz,
    "power_watts": lambda gpu: gpu.power_watts,
    "temperature_celsius": lambda gpu: gpu.temperature_celsius,
}


def in_use(host: HostUse, ranks: Iterable[RankState]) -> HostUse:
    """The host with its ranks' own GPUs only; with all if no rank has told which is its own."""
    own = {rank.gpu_uuid for rank in ranks if rank.gpu_uuid}
    if not own:
        return host
    return replace(host, gpus=tuple(gpu for gpu in host.gpus if gpu.uuid in own))


@dataclass(frozen=True, slots=True)
class Compared:
    """One GPU and the others that it works with."""

    gpu: GpuUse
    others: Sequence[GpuUse]
    policy: Policy

    @property
    def others_clock(self) -> float | None:
        """The SM clock of a typical one of the others."""
        return _typical(gpu.sm_clock_hertz for gpu in self.others)

    @property
    def is_behind(self) -> bool:
        """Whether its SM clock is so far below the others' that its rank is slower by it."""
        own, others = self.gpu.sm_clock_hertz, self.others_clock
        if own is None or others is None:
            return False
        return own <= (1 - self.policy.gpu_clock_behind) * others

    @property
    def throttled_ratio(self) -> float:
        """Share of the samples in which it was held back; by a cap that all share, it was not."""
        return self.gpu.throttled_ratio if self.is_behind else self.gpu.slowed_ratio

    @property
    def reasons(self) -> tuple[str, ...]:
        """What it was held back by, likewise."""
        return tuple(of for of in self.gpu.throttled if self.is_behind or of != POWER_CAP)

    def cause(self) -> Cause:
        """What all this says of a rank that is slow."""
        return Cause(self._sentence(), dict(self._evidence()))

    def _sentence(self) -> str:
        own, others = self.gpu.sm_clock_hertz, self.others_clock
        reasons = ", ".join(self.reasons)
        if own is None or others is None:
            return f" Its GPU's clocks were held back ({reasons})." if reasons else ""
        if not self.is_behind:
            return ""
        clocks = f"{units.hertz(own)}, the others' {units.hertz(others)}"
        return f" Its GPU's SM clock was {clocks}{f' ({reasons})' if reasons else ''}."

    def _evidence(self) -> Iterable[tuple[str, float | str]]:
        for name, get in _COMPARED.items():
            own, others = get(self.gpu), _typical(map(get, self.others))
            if own is not None:
                yield f"gpu_{name}", own
            if own is not None and others is not None:
                yield f"others_{name}", others
        if self.gpu.throttled:
            yield "gpu_throttled", ", ".join(self.gpu.throttled)


def compared(host: HostUse, policy: Policy) -> list[Compared]:
    """Each GPU with the others."""
    return [
        Compared(gpu, [other for other in host.gpus if other.uuid != gpu.uuid], policy)
        for gpu in host.gpus
    ]


def cause(rank: int, ranks: Sequence[RankState], host: HostUse, policy: Policy) -> Cause:
    """What is known of this rank's GPU that would make it slow."""
    uuid = next((of.gpu_uuid for of in ranks if of.rank == rank), "")
    for each in compared(in_use(host, ranks), policy):
        if uuid and each.gpu.uuid == uuid:
            return each.cause()
    return NO_CAUSE


def _typical(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return lower_median(known) if known else None

"""What may explain a change and is no cost by itself: diagnosis, GPUs, machine, ranks, rate."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from traceml.diagnosis.finding import SEVERITIES
from traceml.report.compare.side import Diagnosed, Side


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure on both sides, None where it was not measured."""

    metric: str
    unit: str  # ratio or rate
    base: float | None
    candidate: float | None


@dataclass(frozen=True, slots=True)
class Shift:
    """The primary diagnosis on both sides."""

    base: Diagnosed | None
    candidate: Diagnosed | None

    @property
    def says(self) -> str:
        """improved or worse by how grave it is, else changed or same."""
        if self.base is None or self.candidate is None or _is_open(self.base, self.candidate):
            return ""
        before, after = _gravity(self.base), _gravity(self.candidate)
        if before != after:
            return "improved" if after < before else "worse"
        return "same" if _what(self.base) == _what(self.candidate) else "changed"


def facts(bases: Sequence[Side], candidate: Side) -> tuple[Fact, ...]:
    """Those of which at least one side tells."""
    return tuple(_facts(bases, candidate))


def shift(bases: Sequence[Side], candidate: Side) -> Shift:
    """From the first baseline's diagnosis to the candidate's."""
    return Shift(bases[0].diagnosis, candidate.diagnosis)


_READ: dict[str, tuple[str, Callable[[Side], float | None]]] = {
    "samples_per_second": ("rate", lambda side: _rate(side)),
    "rank_skew": ("ratio", lambda side: None if side.skew is None else side.skew.value),
    "gpu_utilization": ("ratio", lambda side: side.gpu_utilization),
    "host_cpu_utilization": ("ratio", lambda side: side.host_cpu),
}


def _facts(bases: Sequence[Side], candidate: Side) -> Iterator[Fact]:
    for metric, (unit, read) in _READ.items():
        told = [value for value in (read(side) for side in bases) if value is not None]
        base, new = (sum(told) / len(told) if told else None), read(candidate)
        if base is not None or new is not None:
            yield Fact(metric, unit, base, new)


def _rate(side: Side) -> float | None:
    """Of a rank."""
    if side.samples is None or side.step is None or side.step.value <= 0:
        return None
    return side.samples / side.step.value


def _is_open(*found: Diagnosed) -> bool:
    return any(each.state == "NO_DATA" for each in found)


def _gravity(diagnosed: Diagnosed) -> int:
    return SEVERITIES.index(diagnosed.severity) if diagnosed.severity in SEVERITIES else 0


def _what(diagnosed: Diagnosed) -> tuple[str, int | None]:
    return diagnosed.state, diagnosed.rank

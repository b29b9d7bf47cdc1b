"""What is compared: one run as its summary tells it, whoever wrote that. Seconds, bytes, ratios."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Series:
    """A figure over the run, in order: means over so many steps each."""

    values: tuple[float, ...]
    steps: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Over all steps, the slow ones included."""
        total = sum(value * steps for value, steps in zip(self.values, self.steps, strict=True))
        return total / sum(self.steps)


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure, and how it went over the run if the summary tells."""

    value: float
    series: Series | None = None


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest value over the ranks, and whose it is."""

    value: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A run's primary diagnosis."""

    state: str
    severity: str
    rank: int | None = None
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One run. What was not measured is None, or not there."""

    name: str
    tool: str  # that has written the summary
    steps: int  # in the figures
    step: Reading | None
    phases: Mapping[str, Reading]  # of the median rank
    worst: Mapping[str, Worst] = field(default_factory=dict)  # by phase
    diagnosis: Diagnosed | None = None
    memory: Mapping[str, float] = field(default_factory=dict)  # worst peak in bytes, by kind
    skew: Worst | None = None  # by how much the rank with most own work exceeds the median one
    gpu_utilization: float | None = None
    host_cpu: float | None = None
    samples: float | None = None  # a step and rank
    environment: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()  # reasons to trust it less
    id: str | None = None  # of the run, so that it is not taken for two

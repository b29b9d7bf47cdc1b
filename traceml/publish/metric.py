"""What a metric is: declared once, read from the Snapshot, published by whoever wants it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from traceml.snapshot import Snapshot, StepHistogram

Value: TypeAlias = float | StepHistogram
Sample: TypeAlias = tuple[tuple[str, ...], Value | None]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the contract. `run` stands before the labels named here.

    `read` yields label values and a value; a value of None is not published,
    because what was not measured has no series.
    """

    name: str
    kind: Literal["gauge", "state", "counter", "histogram"]  # a state is 0 or 1: a gauge, too
    unit: str
    labels: tuple[str, ...]
    help: str
    read: Callable[[Snapshot], Iterable[Sample]]
    counts: str = ""  # what one of it is, where it has no unit

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels as published."""
        return ("run", *self.labels)

    @property
    def type(self) -> str:
        """What Prometheus calls its kind."""
        return "gauge" if self.kind == "state" else self.kind

    def samples(self, snapshot: Snapshot) -> Iterable[tuple[tuple[str, ...], Value]]:
        """What is measured of it in this Snapshot, with all labels."""
        for labels, value in self.read(snapshot):
            if value is not None:
                yield (snapshot.run.name, *labels), value

"""What is typical of some values: a middle with its spread, or the undisturbed end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the quartiles."""

    median: float
    low: float
    high: float

    def show(self, scale: float = 1.0, digits: int = 1) -> str:
        """As `median (low to high)`, multiplied by `scale`."""
        median, low, high = (
            f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high)
        )
        return f"{median} ({low} to {high})"


def spread(values: Sequence[float]) -> Spread:
    """The spread of some values; at least one."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def undisturbed(values: Sequence[float]) -> float:
    """The 5th percentile: a step while nothing else on the machine was in its way."""
    return float(np.percentile(values, 5))

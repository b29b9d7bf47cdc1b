"""How far figures of runs are apart, and how far they would be if nothing had changed.

Two kinds of noise make up an interval. Within a run steps vary, and slow ones come in groups: so
the run is cut into a few long batches whose means say how sure its figure is, and if neighbouring
batches are still alike, less is claimed. From run to run everything may shift at once (placement,
caches, clocks, neighbours), which no single run can tell: several baselines do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from traceml.report.compare.rules import Rules
from traceml.report.compare.side import Reading, Series

_BATCHES = 16
_FEWEST_BATCHES = 4
_MOST_ALIKE = 0.8  # neighbouring batches: beyond, there is no telling from so few of them
_CAPPED = 95.0  # percentile: as in the summary, one hiccup is no trend
_GRID = 4_001
_MOST_DEGREES = 1000.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A run's figure, its standard error, and the degrees of freedom that this rests on."""

    value: float
    error: float
    degrees: float
    known: bool = True  # False: the error is assumed


@dataclass(frozen=True, slots=True)
class Difference:
    """A candidate's figure against that of its baselines."""

    base: float
    candidate: float
    within: float  # variance of the difference from within the runs; shrinks with more steps
    between: float  # and from run to run; shrinks with more baselines, down to the candidate's own
    degrees: float
    known: bool

    @property
    def change(self) -> float:
        """Candidate minus base."""
        return self.candidate - self.base

    def noise(self, level: float) -> float:
        """Half the width of the interval of that level."""
        return _student(level, self.degrees) * math.sqrt(self.within + self.between)


def typical(reading: Reading, rules: Rules) -> Estimate:
    """The figure of the summary, in which the slowest steps are capped."""
    series = reading.series
    if series is None or not is_long(series):
        return _unknown(reading.value, rules)
    cap = float(np.percentile(series.values, _CAPPED))
    capped = Series(tuple(min(value, cap) for value in series.values), series.steps)
    mean = capped.mean
    error, degrees = _error(capped)
    # What the noise is of may differ a little from what the summary says: the ratio holds.
    return Estimate(reading.value, error * (reading.value / mean if mean else 1.0), degrees)


def is_long(series: Series) -> bool:
    """Whether there is enough of it to tell noise."""
    return len(series.values) >= _FEWEST_BATCHES


def slow_steps(reading: Reading, series: Series) -> Estimate:
    """What slow steps add to the typical one: the mean over all steps, without it."""
    cap = float(np.percentile(series.values, _CAPPED))
    excess = Series(tuple(max(value - cap, 0.0) for value in series.values), series.steps)
    return Estimate(max(series.mean - reading.value, 0.0), *_error(excess))


def exact(value: float) -> Estimate:
    """A figure that is what it is, such as a peak."""
    return Estimate(value, 0.0, _MOST_DEGREES)


def difference(
    bases: Sequence[Estimate], candidate: Estimate, rules: Rules, scale: float | None = None
) -> Difference:
    """The candidate against the mean of the baselines; run noise is relative to `scale`."""
    count = len(bases)
    base = sum(each.value for each in bases) / count
    run_variance, run_degrees = _run_variance(bases, base if scale is None else scale, rules)
    parts = [
        (run_variance * (1 + 1 / count), run_degrees),
        (candidate.error**2, candidate.degrees),
        *(((each.error / count) ** 2, each.degrees) for each in bases),
    ]
    return Difference(
        base=base,
        candidate=candidate.value,
        within=sum(variance for variance, _ in parts[1:]),
        between=parts[0][0],
        degrees=_joint_degrees(parts),
        known=candidate.known and all(each.known for each in bases),
    )


def run_noise(bases: Sequence[Estimate], rules: Rules) -> float:
    """How much equal runs differ: a standard deviation, as a ratio; assumed for one baseline."""
    base = sum(each.value for each in bases) / len(bases)
    return math.sqrt(_run_variance(bases, base, rules)[0]) / base if base else 0.0


def _run_variance(bases: Sequence[Estimate], scale: float, rules: Rules) -> tuple[float, float]:
    """Never less than what the baselines show; with few of them the expected one counts too."""
    if len(bases) == 1:
        return (rules.assumed_run_noise * scale) ** 2, rules.assumed_degrees
    seen = float(np.var([each.value for each in bases], ddof=1))
    seen = max(seen - sum(each.error**2 for each in bases) / len(bases), 0.0)
    expected = (rules.expected_run_noise * scale) ** 2
    more = len(bases) - 1
    degrees = rules.expected_degrees + more
    pooled = (rules.expected_degrees * expected + more * seen) / degrees
    return max(pooled, seen), degrees


def _unknown(value: float, rules: Rules) -> Estimate:
    return Estimate(value, rules.unknown_step_noise * value, rules.unknown_degrees, known=False)


def _error(series: Series) -> tuple[float, float]:
    """Standard error of the mean by batch means, widened as far as these are alike."""
    means = _batch_means(series)
    apart = means - means.mean()
    total = float(apart @ apart)
    count = len(means)
    if total <= 0:
        return 0.0, count - 1.0
    alike = float(apart[1:] @ apart[:-1]) / total + 1 / count  # without its bias
    alike = min(max(alike, 0.0), _MOST_ALIKE)
    widened = (1 + alike) / (1 - alike)
    return math.sqrt(total / (count - 1) / count * widened), (count - 1) / widened


def _batch_means(series: Series) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    count = min(_BATCHES, len(series.values))
    weights = np.array(series.steps, dtype=np.float64)
    sums = np.array(series.values) * weights
    edges = np.linspace(0, len(sums), count + 1).astype(int)[:-1]
    return np.asarray(np.add.reduceat(sums, edges) / np.add.reduceat(weights, edges))


def _joint_degrees(parts: Sequence[tuple[float, float]]) -> float:
    """Welch and Satterthwaite's: of a sum of variances, each estimated by itself."""
    total = sum(variance for variance, _ in parts)
    spread = sum(variance**2 / degrees for variance, degrees in parts)
    return min(total**2 / spread, _MOST_DEGREES) if spread else _MOST_DEGREES


@lru_cache(maxsize=256)
def _student(level: float, degrees: float) -> float:
    """The quantile of Student's t that leaves out 1 - level on both sides together.

    The angle whose tangent is t/sqrt(degrees) has the density cos(angle)^(degrees - 1).
    """
    angles = np.linspace(0.0, math.pi / 2, _GRID)
    density = np.cos(angles) ** (max(degrees, 1.0) - 1)
    below = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    angle = float(np.interp(level, below / below[-1], angles))
    return math.sqrt(max(degrees, 1.0)) * math.tan(angle)

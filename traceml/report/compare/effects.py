"""Metric by metric: how much it changed, and whether that counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from traceml.report.compare.noise import (
    Difference,
    Estimate,
    difference,
    exact,
    is_long,
    slow_steps,
    typical,
)
from traceml.report.compare.rules import Rules
from traceml.report.compare.side import Reading, Side
from traceml.wire.columns import PHASES

STEP, SLOW_STEPS, MEMORY = "step_time", "slow_steps", "memory"

BETTER, WORSE, SAME, UNCLEAR = "better", "worse", "same", "unclear"

_PHASE_NOISE = 0.25  # a short phase's run noise is that of this part of the step, at least
_MOST_OF_IT = 0.5  # of the step's change
_SMALLEST = 1e-9  # less than that is no base for a ratio


@dataclass(frozen=True, slots=True)
class Effect:
    """A metric on both sides. The smaller the better."""

    metric: str
    unit: str  # seconds or bytes
    base: float
    candidate: float
    noise: float  # what the change has to exceed
    equality_noise: float  # half the width of the interval that must lie within the threshold
    says: str  # better, worse, same, unclear
    difference: Difference
    kind: str = ""  # of memory
    told_by: str = ""  # the phase that alone makes a step's change more than noise

    @property
    def change(self) -> float:
        """Candidate minus base."""
        return self.candidate - self.base

    @property
    def ratio(self) -> float | None:
        """The change, relative to the base."""
        return self.change / self.base if self.base > _SMALLEST else None

    def relative(self, amount: float) -> float:
        """An amount, relative to the base."""
        return amount / max(self.base, _SMALLEST)

    @property
    def counts(self) -> bool:
        """Whether it is a change that one may speak of."""
        return self.says in (BETTER, WORSE)

    def exceeds(self, limit: float) -> bool:
        """Whether it has grown by more than that ratio, and by more than noise."""
        return self.is_above(limit) and (self.change > self.noise or bool(self.told_by))

    def is_above(self, limit: float) -> bool:
        """Whether it has grown by more than that ratio, by noise or not."""
        return self.change > limit * self.base


@dataclass(frozen=True, slots=True)
class Effects:
    """All that could be compared."""

    step: Effect | None
    slow_steps: Effect | None  # what they add to the typical step
    memory: Effect | None
    phases: Mapping[str, Effect]

    def __iter__(self) -> Iterator[Effect]:
        first = (self.step, self.slow_steps)
        yield from (each for each in first if each is not None)
        yield from self.phases.values()
        if self.memory is not None:
            yield self.memory

    @property
    def costs(self) -> dict[str, Effect]:
        """What a run is judged by; phases only explain it."""
        named = {STEP: self.step, SLOW_STEPS: self.slow_steps, MEMORY: self.memory}
        return {name: effect for name, effect in named.items() if effect is not None}


def effects(bases: Sequence[Side], candidate: Side, rules: Rules) -> Effects:
    """Every metric that all sides have."""
    bases, candidate = _alike([*bases, candidate])
    step = _timed(STEP, [side.step for side in bases], candidate.step, rules)
    phases = dict(_phases(bases, candidate, rules))
    return Effects(
        step=_told_by(phases, step, rules) if step is not None and len(bases) > 1 else step,
        slow_steps=_slow_steps(bases, candidate, rules),
        memory=_memory(bases, candidate, rules),
        phases=phases,
    )


def _told_by(phases: Mapping[str, Effect], step: Effect, rules: Rules) -> Effect:
    """The step, whose change counts too if it is a single phase's, and that counts.

    What shifts a whole run from the next hardly moves one phase by a part of the step; by how
    much it does has to be learned from several baselines.
    """
    if step.says != UNCLEAR or abs(step.change) < _least(step.base, rules):
        return step
    for phase in phases.values():
        if phase.counts and phase.change / step.change >= _MOST_OF_IT:
            return replace(step, says=phase.says, told_by=phase.metric)
    return step


def _alike(sides: Sequence[Side]) -> tuple[list[Side], Side]:
    """Where one can't tell waiting from backward, nobody does."""
    if len({side.tool for side in sides}) > 1:
        sides = [replace(side, phases=_without_waits(side.phases)) for side in sides]
    return list(sides[:-1]), sides[-1]


def _without_waits(phases: Mapping[str, Reading]) -> dict[str, Reading]:
    kept = {phase: reading for phase, reading in phases.items() if phase != "collective_wait"}
    wait = phases.get("collective_wait")
    if wait is not None and "backward" in kept:
        kept["backward"] = Reading(kept["backward"].value + wait.value)
    return kept


def _phases(bases: Sequence[Side], candidate: Side, rules: Rules) -> Iterator[tuple[str, Effect]]:
    steps = [side.step.value for side in bases if side.step is not None]
    step = sum(steps) / len(steps) if steps else 0.0
    for phase in PHASES:
        readings = [side.phases.get(phase) for side in bases]
        effect = _timed(phase, readings, candidate.phases.get(phase), rules, step)
        if effect is not None:
            yield phase, effect


def _timed(
    metric: str,
    bases: Sequence[Reading | None],
    candidate: Reading | None,
    rules: Rules,
    step: float | None = None,
) -> Effect | None:
    """A time, or a phase of a step that is so long."""
    told = [typical(reading, rules) for reading in bases if reading is not None]
    if candidate is None or len(told) < len(bases):
        return None
    return _effect(metric, told, typical(candidate, rules), rules, step=step)


def _slow_steps(bases: Sequence[Side], candidate: Side, rules: Rules) -> Effect | None:
    readings = [side.step for side in (*bases, candidate) if side.step is not None]
    told = [
        slow_steps(reading, reading.series)
        for reading in readings
        if reading.series is not None and is_long(reading.series)
    ]
    if len(told) <= len(bases):
        return None
    step = sum(reading.value for reading in readings[:-1]) / len(bases)
    return _effect(SLOW_STEPS, told[:-1], told[-1], rules, step=step)


def _memory(bases: Sequence[Side], candidate: Side, rules: Rules) -> Effect | None:
    for kind, peak in candidate.memory.items():
        told = [exact(side.memory[kind]) for side in bases if kind in side.memory]
        if len(told) == len(bases):
            return _effect(MEMORY, told, exact(peak), rules, kind=kind)
    return None


def _effect(
    metric: str,
    bases: Sequence[Estimate],
    candidate: Estimate,
    rules: Rules,
    step: float | None = None,
    kind: str = "",
) -> Effect:
    base = sum(each.value for each in bases) / len(bases)
    least_scale = 1.0 if metric == SLOW_STEPS else _PHASE_NOISE
    scale = base if step is None else max(base, least_scale * step)
    found = difference(bases, candidate, rules, scale)
    noise, equality = found.noise(rules.level_of_change), found.noise(rules.level_of_equality)
    # A phase is as important as it is to the step.
    least = _least(base if step is None else step, rules, metric)
    return Effect(
        metric=metric,
        unit="bytes" if metric == MEMORY else "seconds",
        base=found.base,
        candidate=found.candidate,
        noise=noise,
        equality_noise=equality,
        says=_says(found, noise, equality, least),
        difference=found,
        kind=kind,
    )


def _says(found: Difference, noise: float, equality: float, least: float) -> str:
    size = abs(found.change)
    if size >= least and size > noise:
        return WORSE if found.change > 0 else BETTER
    if found.known and size + equality <= least:
        return SAME
    return UNCLEAR


def _least(base: float, rules: Rules, metric: str = STEP) -> float:
    """What a change has to be at the least, whatever the noise."""
    floor = rules.floor_bytes if metric == MEMORY else rules.floor_seconds
    return max(rules.threshold * base, floor)

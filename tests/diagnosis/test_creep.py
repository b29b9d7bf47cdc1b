"""Growth of memory told from chance: 300 runs of 3 000 steps, looked at again and again."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.builders import Clock, look, make_collector
from traceml.diagnosis.memory import step_memory
from traceml.diagnosis.policy import DEFAULT
from traceml.sidecar.statistics import NOTHING
from traceml.sidecar.trend import Trend
from traceml.snapshot import MemoryTrend, Snapshot, Spread
from traceml.wire.columns import Matrix

RUNS, STEPS = 300, 3_000
LOOKS = np.unique(np.geomspace(60, STEPS, 30).astype(int)).tolist()
MIB, GIB = 2.0**20, 2.0**30
STATISTICS = replace(
    NOTHING,
    memory={"allocated": Spread(30 * GIB, 30 * GIB, 0, 0.0)},
    memory_peaks={"allocated": {0: 30 * GIB}},
)

Floors = Callable[[np.random.Generator], Matrix]  # step x run


def noise(fixed_gib: float, ratio: float) -> Floors:
    """What fragmentation, caches and buffers make of it."""
    return lambda rng: np.asarray(fixed_gib * GIB * (1 + rng.normal(0, ratio, (STEPS, RUNS))))


def lognormal(sigma: float, batch: int, fixed_gib: float, held_gib: float) -> Floors:
    """Outputs of the last batch are still held, and are as long as its longest sample."""

    def floors(rng: np.random.Generator) -> Matrix:
        longest = np.exp(sigma * rng.standard_normal((batch, STEPS, RUNS)).max(axis=0))
        return np.asarray((fixed_gib + held_gib * longest) * GIB)

    return floors


VARYING = {
    "noise": noise(20, 0.01),
    "a small model's noise": noise(1, 0.03),
    "lengths": lognormal(0.3, 8, 20, 20),
    "lengths of a long tail": lognormal(0.5, 8, 20, 8),
    "single samples": lognormal(1.0, 1, 5, 10),
}


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return look(make_collector(Clock(), ranks_expected=1))


def creep(snapshot: Snapshot, trends: dict[int, MemoryTrend]) -> set[str]:
    """What is found of ranks whose memory went like that."""
    found = step_memory(replace(snapshot, memory_trends=trends), STATISTICS, DEFAULT).findings
    return {each.state for each in found if each.state.startswith("MEMORY_CREEP")}


def read_every(steps: int, floors: Matrix) -> Matrix:
    """Short steps are not read each."""
    read = np.full_like(floors, np.nan)
    read[::steps] = floors[::steps]
    return read


@pytest.mark.parametrize("every", [1, 30])
@pytest.mark.parametrize("floors", VARYING.values(), ids=VARYING.keys())
def test_without_a_leak_no_run_is_said_to_creep_at_any_time(
    snapshot: Snapshot, floors: Floors, every: int
) -> None:
    memory = read_every(every, floors(np.random.default_rng(16)))
    trend, added = Trend(), 0
    for steps in LOOKS:
        trend.add(tuple(range(RUNS)), memory[added:steps])
        added = steps
        assert creep(snapshot, trend.trends()) == set(), f"after {steps} steps"


@pytest.mark.parametrize("name", ["lengths", "lengths of a long tail"])
def test_a_leak_is_found_however_lengths_vary(snapshot: Snapshot, name: str) -> None:
    leak = 10 * MIB * np.arange(STEPS)[:, np.newaxis]
    trend = Trend()
    trend.add(tuple(range(RUNS)), VARYING[name](np.random.default_rng(16)) + leak)
    found = [creep(snapshot, {0: of}) for of in trend.trends().values()]
    assert found == [{"MEMORY_CREEP"}] * RUNS


def test_a_leak_behind_an_early_spike_twice_as_high_is_found(snapshot: Snapshot) -> None:
    memory = 30 * GIB + 10 * MIB * np.arange(2_000.0)
    memory[3] = 60 * GIB
    trend = Trend()
    trend.add((0,), memory[:, np.newaxis])
    assert creep(snapshot, trend.trends()) == {"MEMORY_CREEP"}

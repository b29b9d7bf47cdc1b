"""Memory that grows, presses or differs, on runs made by hand."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.builders import Clock, Process, joined, look, make_collector, start_ranks, timed_records
from traceml.diagnosis.finding import Diagnosis, primary
from traceml.sidecar.collector import Collector
from traceml.snapshot import Snapshot
from traceml.wire.columns import VALUES

MIB = 2.0**20
GIB = 2.0**30
STEPS = 400

Series = Callable[[int], float]  # of a rank, by step


def run_of(
    series: Sequence[Series], limit: float = 0.0, column: str = "resident_bytes"
) -> Snapshot:
    return run_with([{column: memory} for memory in series], limit)


def run_with(ranks: Sequence[Mapping[str, Series]], limit: float = 0.0) -> Snapshot:
    """A run whose ranks tell this of each step, by column."""
    collector = make_collector(Clock(), ranks_expected=len(ranks))
    for process, told in zip(ranks_of(collector, len(ranks), limit), ranks, strict=True):
        parts = [timed_records([step]) for step in range(STEPS)]
        for step, part in enumerate(parts):
            for column, memory in told.items():
                part.values[:, VALUES.index(column)] = memory(step)
        process.send(joined(parts))
    return look(collector)


def ranks_of(collector: Collector, count: int, limit: float) -> list[Process]:
    from tests.builders import make_identity

    processes = []
    for rank in range(count):
        identity = make_identity(rank, count)
        identity.memory_limit_bytes = int(limit)
        processes.append(Process(collector, identity, f"m{rank}"))
    return [process.hello() for process in processes]


def diagnosis(snapshot: Snapshot) -> Diagnosis:
    return snapshot.window_diagnoses["step_memory"]


def steady(_: int) -> float:
    return GIB


def leaking(mib_a_step: float) -> Series:
    return lambda step: GIB + step * mib_a_step * MIB


def test_steady_memory_is_balanced() -> None:
    assert diagnosis(run_of([steady, steady])).primary.state == "BALANCED"


def test_a_leak_on_all_ranks_names_none() -> None:
    found = diagnosis(run_of([leaking(1.0), leaking(1.0)])).primary
    assert (found.state, found.rank, found.severity) == ("MEMORY_CREEP", None, "warning")
    assert found.evidence is not None
    assert found.evidence["bytes_per_step"] == pytest.approx(MIB, rel=0.05)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_leak_on_one_rank_names_it(ranks: int) -> None:
    found = diagnosis(run_of([*[steady] * (ranks - 1), leaking(1.0)])).primary
    assert (found.state, found.rank) == ("MEMORY_CREEP", ranks - 1)


def test_a_small_leak_is_early() -> None:
    found = diagnosis(run_of([leaking(0.12), leaking(0.12)])).primary
    assert (found.state, found.severity) == ("MEMORY_CREEP_EARLY", "info")


def test_the_limit_ahead_makes_a_small_leak_grave() -> None:
    limit = 2 * GIB + 150 * MIB  # of both ranks together
    found = diagnosis(run_of([leaking(0.12), leaking(0.12)], limit)).findings
    (creep,) = (each for each in found if each.state == "MEMORY_CREEP")
    assert creep.evidence is not None
    assert creep.evidence["steps_until_limit"] == pytest.approx((150 - 96) / 0.24, rel=0.1)


@pytest.mark.parametrize(
    "memory",
    [
        lambda step: GIB + 500 * MIB * (step > 20),  # a jump after the start
        lambda step: GIB + 500 * MIB * (step > 200),  # a jump in the middle
        lambda step: GIB + min(step, 100) * 5 * MIB,  # fills a cache
        lambda step: GIB + 300 * MIB * (step % 2),  # up and down
        lambda step: 2 * GIB - step * MIB,  # shrinks
    ],
)
def test_growth_that_does_not_go_on_is_no_creep(memory: Series) -> None:
    assert diagnosis(run_of([memory, memory])).primary.state == "BALANCED"


def test_a_device_that_is_nearly_full_is_under_pressure() -> None:
    of = [lambda _: 30 * GIB, lambda _: 37.5 * GIB]
    found = diagnosis(run_of(of, 40 * GIB, "allocated_bytes")).primary
    assert (found.state, found.rank, found.severity) == ("HIGH_PRESSURE", 1, "warning")


def test_pressure_is_over_when_no_step_of_the_window_is_close_to_the_limit() -> None:
    def until(step: int) -> Series:
        return lambda now: (39 if now <= step else 20) * GIB

    lasting = run_of([until(STEPS - 100)], 40 * GIB, "allocated_bytes")
    assert diagnosis(lasting).primary.state == "HIGH_PRESSURE"
    over = run_of([until(STEPS - 101)], 40 * GIB, "allocated_bytes")
    assert diagnosis(over).primary.state == "BALANCED"
    assert over.whole_diagnoses["step_memory"].primary.state == "HIGH_PRESSURE"


def retried(at: int) -> Snapshot:
    """Rank 1 has room enough, and has to try again in this step."""
    told: dict[str, Series] = {"allocated_bytes": lambda _: 20 * GIB}
    once: Series = lambda step: float(step == at)  # noqa: E731
    return run_with([told, {**told, "allocation_retries": once}], 40 * GIB)


def test_one_allocation_retry_is_critical_for_a_window_even_below_the_limit() -> None:
    found = diagnosis(retried(STEPS - 100)).primary
    assert (found.state, found.rank, found.severity) == ("HIGH_PRESSURE", 1, "critical")
    assert "try again once" in found.summary
    assert found.evidence is not None
    assert found.evidence["retries"] == 1
    assert diagnosis(retried(STEPS - 100)).scores["HIGH_PRESSURE"] >= 1


def test_an_allocation_retry_is_over_after_a_window_and_remains_in_the_summary() -> None:
    snapshot = retried(STEPS - 101)
    assert diagnosis(snapshot).primary.state == "BALANCED"
    whole = snapshot.whole_diagnoses["step_memory"].primary
    assert (whole.state, whole.severity) == ("HIGH_PRESSURE", "critical")


def test_on_a_device_growth_is_of_what_stays_allocated_and_names_the_rank() -> None:
    def of(mib_a_step: float) -> dict[str, Series]:
        floor: Series = lambda step: (30 * GIB) + step * mib_a_step * MIB  # noqa: E731
        return {
            "floor_bytes": floor,
            "allocated_bytes": lambda step: 60 * GIB if step == 3 else floor(step) + 5 * GIB,
        }

    found = diagnosis(run_with([of(0), of(10)], 80 * GIB)).primary
    assert (found.state, found.rank) == ("MEMORY_CREEP", 1)
    assert found.summary.startswith("Rank 1's memory that stays allocated between steps grew by")


def test_peaks_that_rise_above_a_floor_that_does_not_are_no_creep() -> None:
    told: dict[str, Series] = {
        "floor_bytes": steady,
        "allocated_bytes": lambda step: 2 * GIB + step * 10 * MIB,
        "resident_bytes": leaking(1.0),
    }
    assert diagnosis(run_with([told, told])).primary.state == "BALANCED"


def test_ranks_of_different_memory_are_imbalanced() -> None:
    of = [lambda _: 12 * GIB, lambda _: 16 * GIB]
    found = diagnosis(run_of(of, 40 * GIB, "allocated_bytes")).primary
    assert (found.state, found.rank, found.severity) == ("IMBALANCE", 1, "warning")
    small = [lambda _: 1 * GIB, lambda _: 2 * GIB]
    assert diagnosis(run_of(small, 40 * GIB, "allocated_bytes")).primary.state == "BALANCED"


def test_without_a_limit_nothing_is_said_of_pressure() -> None:
    assert "HIGH_PRESSURE" not in diagnosis(run_of([steady])).scores


def test_a_leak_counts_more_than_a_healthy_step_and_less_than_a_graver_finding() -> None:
    assert primary(run_of([leaking(1.0)]).whole_diagnoses).state == "MEMORY_CREEP"


def test_without_steps_there_is_no_data() -> None:
    collector = make_collector(Clock(), ranks_expected=2)
    start_ranks(collector, 2)
    assert diagnosis(look(collector)).primary.state == "NO_DATA"

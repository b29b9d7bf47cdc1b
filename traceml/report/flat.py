"""The run in numbers by name: what W&B, MLflow and TensorBoard take as it is."""

from collections.abc import Iterator

from traceml.diagnosis.finding import SEVERITIES, Diagnoses
from traceml.snapshot import Snapshot, Spread, Statistics

Figure = tuple[str, float | None]


def flat(snapshot: Snapshot) -> dict[str, float]:
    """Figures of the latest steps (`window`) and of all (`run`); what is not known is not there."""
    figures = [
        *_totals(snapshot),
        *_scope("window", snapshot.window, snapshot.window_diagnoses),
        *_scope("run", snapshot.whole, snapshot.whole_diagnoses),
    ]
    return {f"traceml/{name}": value for name, value in figures if value is not None}


def _totals(snapshot: Snapshot) -> Iterator[Figure]:
    steps, telemetry = snapshot.steps, snapshot.telemetry
    yield "steps_completed", steps.completed
    yield "steps_excluded", sum(steps.excluded.values())
    yield "steps_incomplete", sum(steps.incomplete.values())
    yield "duration_seconds", snapshot.run.duration_seconds
    yield "straggler_lost_seconds", sum(rank.all_lost_seconds for rank in snapshot.ranks)
    yield "overhead_seconds_per_step", telemetry.overhead_seconds_per_step
    yield "records_dropped", sum(telemetry.records_dropped.values())


def _scope(scope: str, of: Statistics, diagnoses: Diagnoses) -> Iterator[Figure]:
    alone = len(of.ranks) == 1
    if of.step is not None:
        yield from _spread(f"{scope}/step", of.step, "seconds", alone)
    for phase, each in of.phases.items():
        yield from _spread(f"{scope}/{phase}", each.spread, "seconds", alone)
        yield f"{scope}/{phase}/share_ratio", each.share_ratio
    idle = sorted(each.idle_ratio for each in of.ranks.values() if each.idle_ratio is not None)
    if idle:
        yield f"{scope}/device_idle_ratio", idle[(len(idle) - 1) // 2]
    for kind, peak in of.memory.items():
        yield from _spread(f"{scope}/memory_{kind}", peak, "bytes", alone)
    for domain, diagnosis in diagnoses.items():
        yield f"{scope}/{domain}/severity", SEVERITIES.index(diagnosis.primary.severity)
        for state, score in diagnosis.scores.items():
            yield f"{scope}/{domain}/score/{state}", score


def _spread(name: str, spread: Spread, unit: str, alone: bool) -> Iterator[Figure]:
    yield f"{name}/median_{unit}", spread.median
    if alone:  # nobody to compare it with
        return
    yield f"{name}/worst_{unit}", spread.worst
    yield f"{name}/worst_rank", spread.worst_rank
    yield f"{name}/skew_ratio", spread.skew_ratio

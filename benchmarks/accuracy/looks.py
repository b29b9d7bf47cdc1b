"""What was said of a run, step by step: its journal told again to a fresh collector."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from benchmarks.accuracy.recorded import Recording
from benchmarks.accuracy.schedule import WINDOW_STEPS, Schedule
from benchmarks.accuracy.truth import Verdict
from traceml.diagnosis.finding import STEP_MEMORY, STEP_TIME
from traceml.sidecar.collector import Collector
from traceml.sidecar.refusal import RefusedError
from traceml.snapshot import Snapshot, Statistics

_CLOSELY_STEPS = 45  # from a segment's beginning, where a verdict should come
_ELSE_EVERY = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What was said once so many steps were completed."""

    completed: int
    verdicts: dict[str, Verdict]  # by domain
    exchange_ratio: float | None  # of the typical step, in the window


def looks(recording: Recording) -> Iterator[Look]:
    """Every step where it matters, and every few steps elsewhere."""
    schedule = recording.schedule
    steps = _worth_a_look(schedule)
    collector = Collector(recording.identity())
    told: Counter[str] = Counter()  # steps, by the session of a rank
    completed = 0
    for entry in recording.entries():
        with suppress(RefusedError):
            collector.apply(entry)
        if not entry.push.batch.records:
            continue
        told[entry.push.session] += 1
        if len(told) < schedule.world_size or min(told.values()) == completed:
            continue
        completed = min(told.values())
        if completed in steps:
            collector.clock = partial(float, entry.at)
            yield _look(collector.snapshot())


def _worth_a_look(schedule: Schedule) -> set[int]:
    worth = set(range(WINDOW_STEPS // 5, schedule.steps, _ELSE_EVERY))
    for start, segment in zip(schedule.starts, schedule.segments, strict=True):
        end = start + segment.steps
        worth.add(end)
        worth.update(range(start + 1, min(start + _CLOSELY_STEPS, end)))
    return worth


def _look(snapshot: Snapshot) -> Look:
    verdicts = {
        domain: Verdict.of(snapshot.window_diagnoses[domain].primary)
        for domain in (STEP_TIME, STEP_MEMORY)
    }
    return Look(snapshot.steps.completed, verdicts, _exchange_ratio(snapshot.window))


def _exchange_ratio(window: Statistics) -> float | None:
    if window.lengths is None or window.step is None or window.lengths.exchange_seconds is None:
        return None
    return window.lengths.exchange_seconds / window.step.median

"""How metrics are read out of the Snapshot: small readers that the catalogue puts together."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from traceml.diagnosis.finding import SEVERITIES, STATES, Diagnosis
from traceml.publish.metric import Sample, Value
from traceml.snapshot import Gpu, Host, RankState, Snapshot, Spread

RUN_STATES = ("running", "completed", "failed", "interrupted")

Read = Callable[[Snapshot], Iterable[Sample]]


def one(get: Callable[[Snapshot], Value | None]) -> Read:
    """A single value."""
    return lambda snapshot: [((), get(snapshot))]


def info(get: Callable[[Snapshot], Iterable[Any]]) -> Read:
    """Nothing but labels."""
    return lambda snapshot: [(tuple(str(value) for value in get(snapshot)), 1.0)]


def by_key(get: Callable[[Snapshot], Mapping[str, float]]) -> Read:
    """A value for each key."""
    return lambda snapshot: [((key,), value) for key, value in get(snapshot).items()]


def step(field: str) -> Read:
    """Of the step over the ranks."""
    return lambda snapshot: [((), _field(snapshot.window.step, field))]


def phase(field: str) -> Read:
    """Of each phase over the ranks."""

    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for name, of in snapshot.window.phases.items():
            yield (name,), _field(of.spread, field)

    return read


def phase_shares(snapshot: Snapshot) -> Iterable[Sample]:
    """Of each phase: its part of the typical step."""
    for name, of in snapshot.window.phases.items():
        yield (name,), of.share_ratio


def memory(field: str) -> Read:
    """Of each kind of memory over the ranks."""

    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for kind, spread in snapshot.window.memory.items():
            yield (kind,), _field(spread, field)

    return read


def host(get: Callable[[Host], float | None]) -> Read:
    """Of the host, if it was looked at."""
    return lambda snapshot: [((), None if snapshot.host is None else get(snapshot.host))]


def gpu(get: Callable[[Gpu], float | None]) -> Read:
    """Of each GPU."""

    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for of in snapshot.host.gpus if snapshot.host is not None else ():
            yield (str(of.index), of.uuid), get(of)

    return read


def gpu_by_key(get: Callable[[Gpu], Mapping[str, float]]) -> Read:
    """Of each GPU a value for each key."""

    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for of in snapshot.host.gpus if snapshot.host is not None else ():
            for key, value in get(of).items():
                yield (str(of.index), of.uuid, key), value

    return read


def rank(get: Callable[[RankState], float | None]) -> Read:
    """Of each rank."""
    return lambda snapshot: [((str(of.rank),), get(of)) for of in _present(snapshot)]


def rank_by_key(get: Callable[[RankState], Mapping[str, float]]) -> Read:
    """Of each rank a value for each key."""

    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for of in _present(snapshot):
            for key, value in get(of).items():
                yield (str(of.rank), key), value

    return read


def rank_info(snapshot: Snapshot) -> Iterable[Sample]:
    """Who each rank is."""
    for of in _present(snapshot):
        labels = (of.rank, of.local_rank, of.node_rank, of.gpu_uuid, of.group)
        yield tuple(str(label) for label in labels), 1.0


def rank_steps(snapshot: Snapshot) -> Iterable[Sample]:
    """Each rank's typical step."""
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        yield (str(of.rank),), None if times is None else times.step_seconds


def rank_phases(snapshot: Snapshot) -> Iterable[Sample]:
    """Each rank's typical phases."""
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        for name, seconds in ({} if times is None else times.phases).items():
            yield (str(of.rank), name), seconds


def rank_waits(snapshot: Snapshot) -> Iterable[Sample]:
    """Each rank's waiting, by place."""
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        for place, seconds in ({} if times is None else times.wait_seconds).items():
            yield (str(of.rank), place), seconds


def rank_idle(snapshot: Snapshot) -> Iterable[Sample]:
    """What each rank's device idles of its step."""
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        yield (str(of.rank),), None if times is None else times.idle_ratio


def rank_memory(snapshot: Snapshot) -> Iterable[Sample]:
    """Each rank's peaks, by kind."""
    for of in _present(snapshot):
        for kind, peaks in snapshot.window.memory_peaks.items():
            yield (str(of.rank), kind), peaks.get(of.rank)


def run_state(snapshot: Snapshot) -> Iterable[Sample]:
    """All states there are; 1 for the one the run is in."""
    for state in RUN_STATES:
        yield (state,), float(snapshot.run.state == state)


def diagnosis_states(snapshot: Snapshot) -> Iterable[Sample]:
    """All states there are; 1 for the primary one of each domain."""
    for domain, of in snapshot.window_diagnoses.items():
        for state in STATES[domain]:
            yield (domain, state), float(state == of.primary.state)


def diagnosis_scores(snapshot: Snapshot) -> Iterable[Sample]:
    """Of every rule that did not abstain."""
    for domain, of in snapshot.window_diagnoses.items():
        for state, score in of.scores.items():
            yield (domain, state), score


def diagnosis_severity(snapshot: Snapshot) -> Iterable[Sample]:
    """Of the primary finding of each domain."""
    for domain, of in snapshot.window_diagnoses.items():
        yield (domain,), float(SEVERITIES.index(of.primary.severity))


def diagnosis_info(snapshot: Snapshot) -> Iterable[Sample]:
    """The primary finding of each domain."""
    for domain, of in snapshot.window_diagnoses.items():
        yield _labels(domain, of), 1.0


def _labels(domain: str, diagnosis: Diagnosis) -> tuple[str, ...]:
    of = diagnosis.primary
    rank = "" if of.rank is None else str(of.rank)
    return domain, of.state, of.severity, rank, of.phase or ""


def _field(spread: Spread | None, field: str) -> float | None:
    return None if spread is None else attrgetter(field)(spread)


def _present(snapshot: Snapshot) -> Iterable[RankState]:
    """A rank that fell silent disappears; one that said goodbye stays to the end."""
    return (rank for rank in snapshot.ranks if rank.present)

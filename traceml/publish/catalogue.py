"""Every metric TraceML publishes, each declared once.

Names, types, units and labels are a contract with dashboards and alerts.
Base units, ratios from 0 to 1, no sentinels: what was not measured is absent.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from traceml import __version__
from traceml.publish.metric import Metric, Sample, Value
from traceml.snapshot import Host, RankState, Snapshot, Spread

RUN_STATES = ("running", "completed", "failed", "interrupted")

Read = Callable[[Snapshot], Iterable[Sample]]


def _one(get: Callable[[Snapshot], Value | None]) -> Read:
    return lambda snapshot: [((), get(snapshot))]


def _info(get: Callable[[Snapshot], Iterable[Any]]) -> Read:
    return lambda snapshot: [(tuple(str(value) for value in get(snapshot)), 1.0)]


def _by_key(get: Callable[[Snapshot], Mapping[str, float]]) -> Read:
    return lambda snapshot: [((key,), value) for key, value in get(snapshot).items()]


def _step(field: str) -> Read:
    return lambda snapshot: [((), _field(snapshot.window.step, field))]


def _phase(field: str) -> Read:
    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for phase, of in snapshot.window.phases.items():
            yield (phase,), _field(of.spread, field)

    return read


def _phase_shares(snapshot: Snapshot) -> Iterable[Sample]:
    for phase, of in snapshot.window.phases.items():
        yield (phase,), of.share_ratio


def _memory(field: str) -> Read:
    return lambda snapshot: [(("rss",), _field(snapshot.window.memory, field))]


def _field(spread: Spread | None, field: str) -> float | None:
    return None if spread is None else attrgetter(field)(spread)


def _host(get: Callable[[Host], float | None]) -> Read:
    return lambda snapshot: [((), None if snapshot.host is None else get(snapshot.host))]


def _present(snapshot: Snapshot) -> Iterable[RankState]:
    """A rank that fell silent disappears; one that said goodbye stays to the end."""
    return (rank for rank in snapshot.ranks if rank.present)


def _rank(get: Callable[[RankState], float | None]) -> Read:
    return lambda snapshot: [((str(of.rank),), get(of)) for of in _present(snapshot)]


def _rank_by_key(get: Callable[[RankState], Mapping[str, float]]) -> Read:
    def read(snapshot: Snapshot) -> Iterable[Sample]:
        for of in _present(snapshot):
            for key, value in get(of).items():
                yield (str(of.rank), key), value

    return read


def _rank_info(snapshot: Snapshot) -> Iterable[Sample]:
    for of in _present(snapshot):
        yield (
            (
                str(of.rank),
                str(of.local_rank),
                str(of.node_rank),
                of.gpu_uuid,
                of.group,
            ),
            1.0,
        )


def _rank_steps(snapshot: Snapshot) -> Iterable[Sample]:
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        yield (str(of.rank),), None if times is None else times.step_seconds


def _rank_phases(snapshot: Snapshot) -> Iterable[Sample]:
    for of in _present(snapshot):
        times = snapshot.window.ranks.get(of.rank)
        for phase, seconds in ({} if times is None else times.phases).items():
            yield (str(of.rank), phase), seconds


def _rank_memory(snapshot: Snapshot) -> Iterable[Sample]:
    for of in _present(snapshot):
        yield (str(of.rank), "rss"), snapshot.window.memory_peaks.get(of.rank)


def _run_state(snapshot: Snapshot) -> Iterable[Sample]:
    for state in RUN_STATES:
        yield (state,), float(snapshot.run.state == state)


def _diagnosis(snapshot: Snapshot) -> Iterable[Sample]:
    for finding in snapshot.findings:
        yield (finding.domain, finding.state), 1.0


CATALOGUE: tuple[Metric, ...] = (
    Metric(
        "traceml_build_info", "gauge", "", ("version",),
        "The version of TraceML, constant 1.",
        _info(lambda s: (__version__,)),
    ),
    Metric(
        "traceml_run_info", "gauge", "", ("world_size", "nnodes", "strategy", "device", "torch"),
        "What kind of run this is, constant 1. Absent until a rank has reported.",
        lambda s: [] if s.run.world_size is None else _info(
            lambda s: (s.run.world_size, s.run.nnodes, s.run.strategy, s.run.device, s.run.torch)
        )(s),
    ),
    Metric(
        "traceml_rank_info", "gauge", "", ("rank", "local_rank", "node", "gpu_uuid", "group"),
        "A reporting rank, constant 1. Ranks of one group hold the same share of the model.",
        _rank_info,
    ),
    Metric(
        "traceml_run_state", "gauge", "", ("state",),
        "1 for the state the run is in, 0 for the others.",
        _run_state,
    ),
    Metric(
        "traceml_run_start_timestamp_seconds", "gauge", "seconds", (),
        "Unix time at which the run was started.",
        _one(lambda s: s.run.started_at),
    ),
    Metric(
        "traceml_last_step_timestamp_seconds", "gauge", "seconds", (),
        "Unix time at which the last step was completed by all ranks. Absent before the first.",
        _one(lambda s: s.steps.last_completed_at),
    ),
    Metric(
        "traceml_ranks_expected", "gauge", "", (),
        "How many ranks this node should have; 0 once all have said goodbye.",
        _one(lambda s: s.ranks_expected),
    ),
    Metric(
        "traceml_ranks_reporting", "gauge", "", (),
        "How many ranks of this node were heard of in the last seconds.",
        _one(lambda s: s.ranks_reporting),
    ),
    Metric(
        "traceml_steps_completed", "counter", "", (),
        "Steps that every rank of this node has reported, tagged ones included. A rank that the "
        "others went on without is not waited for.",
        _one(lambda s: s.steps.completed),
    ),
    Metric(
        "traceml_steps_incomplete", "counter", "", ("reason",),
        "Steps given up because a rank's record was lost (missing), because a rank stayed too far "
        "behind (overflow), or because the ranks were restarted (restart).",
        _by_key(lambda s: s.steps.incomplete),
    ),
    Metric(
        "traceml_steps_excluded", "counter", "", ("tag",),
        "Completed steps left out of the statistics, by the reason for it.",
        _by_key(lambda s: s.steps.excluded),
    ),
    Metric(
        "traceml_step_seconds", "histogram", "seconds", (),
        "Length of completed steps, tagged ones left out; a step's length is its maximum over "
        "ranks.",
        _one(lambda s: s.steps.histogram),
    ),
    Metric(
        "traceml_step_median_seconds", "gauge", "seconds", (),
        "Step time of the median rank over the window.",
        _step("median"),
    ),
    Metric(
        "traceml_step_worst_seconds", "gauge", "seconds", (),
        "Step time of the slowest rank over the window.",
        _step("worst"),
    ),
    Metric(
        "traceml_step_worst_rank", "gauge", "", (),
        "The rank with the longest step time over the window.",
        _step("worst_rank"),
    ),
    Metric(
        "traceml_step_skew_ratio", "gauge", "ratio", (),
        "How much longer the slowest rank's step is than the median rank's.",
        _step("skew_ratio"),
    ),
    Metric(
        "traceml_phase_median_seconds", "gauge", "seconds", ("phase",),
        "Time of the median rank in a phase of the step, over the window.",
        _phase("median"),
    ),
    Metric(
        "traceml_phase_worst_seconds", "gauge", "seconds", ("phase",),
        "Time of the slowest rank in a phase of the step, over the window.",
        _phase("worst"),
    ),
    Metric(
        "traceml_phase_worst_rank", "gauge", "", ("phase",),
        "The rank that spends the most time in a phase, over the window.",
        _phase("worst_rank"),
    ),
    Metric(
        "traceml_phase_skew_ratio", "gauge", "ratio", ("phase",),
        "How much more time the slowest rank spends in a phase than the median rank.",
        _phase("skew_ratio"),
    ),
    Metric(
        "traceml_phase_share_ratio", "gauge", "ratio", ("phase",),
        "A phase's share of the typical step: median rank's phase over median rank's step.",
        _phase_shares,
    ),
    Metric(
        "traceml_rank_phase_seconds", "gauge", "seconds", ("rank", "phase"),
        "A rank's typical time in a phase: mean over the window, its slowest twentieth capped.",
        _rank_phases,
    ),
    Metric(
        "traceml_rank_step_seconds", "gauge", "seconds", ("rank",),
        "A rank's typical step time: mean over the window, its slowest twentieth capped.",
        _rank_steps,
    ),
    Metric(
        "traceml_rank_phase_time_seconds", "counter", "seconds", ("rank", "phase"),
        "Time a rank has spent in a phase so far, all of its steps included.",
        _rank_by_key(lambda of: of.phase_seconds),
    ),
    Metric(
        "traceml_rank_steps", "counter", "", ("rank",),
        "Steps a rank has reported so far.",
        _rank(lambda of: of.steps),
    ),
    Metric(
        "traceml_rank_samples", "counter", "", ("rank",),
        "Samples a rank has fetched so far: the leading dimensions of its batches.",
        _rank(lambda of: of.samples),
    ),
    Metric(
        "traceml_diagnosis", "gauge", "", ("domain", "state"),
        "1 for the primary diagnosis of each domain.",
        _diagnosis,
    ),
    Metric(
        "traceml_memory_peak_median_bytes", "gauge", "bytes", ("kind",),
        "Peak memory of the median rank over the window. On CPU the resident set stands in.",
        _memory("median"),
    ),
    Metric(
        "traceml_memory_peak_worst_bytes", "gauge", "bytes", ("kind",),
        "Peak memory of the rank with the most, over the window.",
        _memory("worst"),
    ),
    Metric(
        "traceml_memory_peak_worst_rank", "gauge", "", ("kind",),
        "The rank with the highest peak memory over the window.",
        _memory("worst_rank"),
    ),
    Metric(
        "traceml_memory_peak_skew_ratio", "gauge", "ratio", ("kind",),
        "How much higher the highest rank's peak memory is than the median rank's.",
        _memory("skew_ratio"),
    ),
    Metric(
        "traceml_rank_memory_peak_bytes", "gauge", "bytes", ("rank", "kind"),
        "A rank's peak memory over the window.",
        _rank_memory,
    ),
    Metric(
        "traceml_host_cpu_utilization_ratio", "gauge", "ratio", (),
        "Share of this host's CPU time that was in use since the last sample.",
        _host(lambda of: of.cpu_utilization_ratio),
    ),
    Metric(
        "traceml_host_memory_used_bytes", "gauge", "bytes", (),
        "Memory in use on this host.",
        _host(lambda of: of.memory_used_bytes),
    ),
    Metric(
        "traceml_host_memory_size_bytes", "gauge", "bytes", (),
        "Memory this host has.",
        _host(lambda of: of.memory_size_bytes),
    ),
    Metric(
        "traceml_rank_cpu_seconds", "counter", "seconds", ("rank",),
        "User and system CPU time of a rank's process so far.",
        _rank(lambda of: of.cpu_seconds),
    ),
    Metric(
        "traceml_rank_resident_memory_bytes", "gauge", "bytes", ("rank",),
        "Resident set of a rank's process.",
        _rank(lambda of: of.resident_bytes),
    ),
    Metric(
        "traceml_overhead_seconds", "counter", "seconds", ("rank",),
        "Time TraceML itself has taken on a rank's training thread so far, as it measures itself.",
        _rank(lambda of: of.overhead_seconds),
    ),
    Metric(
        "traceml_records_received", "counter", "", ("rank",),
        "Step records received from a rank so far, duplicates not counted.",
        _rank(lambda of: of.records_received),
    ),
    Metric(
        "traceml_records_dropped", "counter", "", ("rank", "reason"),
        "Step records lost so far: overwritten in the rank's ring, given up while the sidecar did "
        "not answer (backlog), too late for their step, malformed, or acknowledged by a sidecar "
        "that died before it could write them (unjournaled).",
        _rank_by_key(lambda of: of.records_dropped),
    ),
    Metric(
        "traceml_records_unjournaled", "counter", "", (),
        "Step records taken while the journal could not be written; they are lost only if the "
        "sidecar dies before it can be.",
        _one(lambda s: s.telemetry.records_unjournaled),
    ),
    Metric(
        "traceml_requests_refused", "counter", "", ("reason",),
        "Requests to the sidecar that it did not take, by the reason for it.",
        _by_key(lambda s: s.telemetry.requests_refused),
    ),
    Metric(
        "traceml_sidecar_restarts", "counter", "", (),
        "How often the sidecar of this run was started again.",
        _one(lambda s: s.telemetry.sidecar_restarts),
    ),
)  # fmt: skip

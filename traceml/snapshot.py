"""What every output reads: one immutable picture of the run, made once an interval.

Data only. Whatever an output shows was computed before this was made, so no two
outputs can disagree. Times are seconds, memory bytes; None means not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from traceml.diagnosis.finding import Finding


@dataclass(frozen=True, slots=True)
class Spread:
    """One quantity over the ranks: a typical rank's value against the largest."""

    median: float
    worst: float
    worst_rank: int
    skew_ratio: float | None  # (worst - median) / median; None for a median of 0


@dataclass(frozen=True, slots=True)
class PhaseSpread:
    """A phase over the ranks, and its share of the typical step."""

    spread: Spread
    share_ratio: float | None


@dataclass(frozen=True, slots=True)
class RankTimes:
    """One rank's typical step: a mean in which its slowest twentieth is capped."""

    step_seconds: float
    own_seconds: float | None  # all phases but collective_wait
    phases: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The completed steps of a scope, tagged ones left out."""

    steps: int
    step: Spread | None
    phases: Mapping[str, PhaseSpread]
    ranks: Mapping[int, RankTimes]
    memory_peaks: Mapping[int, float]  # of the resident set, by rank
    memory: Spread | None


@dataclass(frozen=True, slots=True)
class StepHistogram:
    """Completed steps by length; a step's length is its maximum over ranks."""

    bounds_seconds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds: the last is beyond them
    sum_seconds: float


@dataclass(frozen=True, slots=True)
class Steps:
    """What became of the steps so far."""

    completed: int
    incomplete: Mapping[str, int]
    excluded: Mapping[str, int]
    last_completed_at: float | None  # unix time
    histogram: StepHistogram
    quantiles_seconds: Mapping[str, float]  # p50 ... max, over the run


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank: who it is and what it has reported so far."""

    rank: int
    local_rank: int
    node_rank: int
    device: str
    gpu_uuid: str
    group: str
    reporting: bool  # heard of lately
    present: bool  # reporting, or said goodbye; a rank that is not has no series
    parted: bool  # said goodbye
    step: int
    phase: str
    steps: int
    phase_seconds: Mapping[str, float]
    samples: float | None
    overhead_seconds: float
    cpu_seconds: float | None
    resident_bytes: float | None
    records_received: int
    records_dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Absence:
    """A rank that should be there and is not."""

    rank: int
    step: int | None  # that it was in when last heard of; None if it never was
    phase: str
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class Host:
    """The machine at this moment."""

    cpu_utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_size_bytes: float


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What TraceML itself took and lost, over all ranks."""

    overhead_seconds_per_step: float | None
    records_received: int
    records_dropped: Mapping[str, int]  # by the reason for it; only reasons that there were
    records_unjournaled: int  # taken while the journal could not be written
    requests_refused: Mapping[str, int]  # by the reason for it
    sidecar_restarts: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the run the journal still tells, where this was rebuilt from it."""

    until: float  # unix time of the last thing told
    whole: bool  # the run's end is in it, and nothing could not be read
    unread_bytes: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The run itself."""

    name: str
    id: str
    state: str  # running, completed, failed, interrupted
    exit_code: int | None
    started_at: float
    duration_seconds: float
    command: tuple[str, ...]
    world_size: int | None
    nnodes: int | None
    strategy: str
    device: str
    torch: str
    python: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The run at one moment, at two scopes: the last steps, and all of them."""

    run: Run
    ranks_expected: int | None
    ranks_reporting: int
    ranks: tuple[RankState, ...]
    absent: tuple[Absence, ...]
    steps: Steps
    window: Statistics
    whole: Statistics
    host: Host | None
    telemetry: Telemetry
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    coverage: Coverage | None  # None for a Snapshot of the sidecar's own

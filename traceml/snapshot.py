"""What every output reads: one immutable picture of the run, made once an interval.

Data only. Whatever an output shows was computed before this was made, so no two
outputs can disagree. Times are seconds, memory bytes; None means not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from traceml.diagnosis.finding import Diagnoses


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
    own_seconds: float | None  # all phases but collective_wait; None where waits are not seen
    phases: Mapping[str, float]
    group: str = ""  # ranks of one group hold the same share of the model, and are compared
    late_ratio: Mapping[str, float] = field(default_factory=dict)  # of its excess, by phase
    lost_seconds: Mapping[str, float] = field(default_factory=dict)  # that others waited for it
    led_ratio: float = 0.0  # of the steps: those in which the others waited for it
    elements: float | None = None  # in a batch, on average
    wait_seconds: Mapping[str, float] = field(default_factory=dict)  # collective_wait by place
    idle_seconds: float | None = None  # within compute, its device had done all that was queued

    @property
    def idle_ratio(self) -> float | None:
        """The share of its step in which its device waited for the CPU; None if not measured."""
        if self.idle_seconds is None or not self.step_seconds:
            return None
        return self.idle_seconds / self.step_seconds


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long steps took, and what of it is nobody's own work; over the scope."""

    p50_seconds: float
    p95_seconds: float
    exchange_seconds: float | None  # mean of the shortest wait in each step
    imbalance_seconds: float | None  # mean of the longest own work over the median one
    length_explained_ratio: float | None  # of the lengths' variance, by the size of batches
    imbalance_explained_ratio: float | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The completed steps of a scope, tagged ones left out."""

    steps: int
    step: Spread | None
    phases: Mapping[str, PhaseSpread]
    ranks: Mapping[int, RankTimes]
    lengths: Lengths | None
    on_device_ratio: float  # of the steps: those timed on the devices' own clocks
    memory_peaks: Mapping[str, Mapping[int, float]]  # by kind and rank
    memory: Mapping[str, Spread]  # by kind
    allocation_retries: Mapping[int, int]  # by rank, those that had to

    @property
    def clock(self) -> str:
        """Whose clock the times are of."""
        if self.on_device_ratio >= 0.95:
            return "device"
        return "cpu" if self.on_device_ratio == 0 else "mixed"


@dataclass(frozen=True, slots=True)
class MemoryTrend:
    """A rank's memory in three bands of the steps so far."""

    steps: int
    baseline_bytes: float
    middle_bytes: float
    recent_bytes: float
    largest_rise_bytes: float  # from one eighth of the time since the baseline to the next
    certainty: float  # of the rise: standard deviations of what chance makes of the order


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A step whose trace can be looked up."""

    trace_id: str
    span_id: str
    seconds: float  # its length
    timestamp: float  # unix time


@dataclass(frozen=True, slots=True)
class StepHistogram:
    """Completed steps by length; a step's length is its maximum over ranks."""

    bounds_seconds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds: the last is beyond them
    sum_seconds: float
    exemplars: tuple[Exemplar | None, ...] = ()  # none at all, or as many as counts


@dataclass(frozen=True, slots=True)
class Part:
    """Some completed steps in a row, tagged ones left out; the parts of a run are equally long."""

    steps: int  # in the last part perhaps fewer
    seconds: float  # mean length
    longest_seconds: float
    excluded: int  # tagged steps that fell into it
    ended_at: float  # unix time
    phases: Mapping[str, float]  # lower median over ranks of the rank's mean
    memory_median_bytes: float | None  # of the ranks' means: allocated, or the resident set
    memory_worst_bytes: float | None


@dataclass(frozen=True, slots=True)
class Turn:
    """From then on the primary finding on the latest steps was this one."""

    at: float  # unix time
    state: str
    severity: str
    rank: int | None
    phase: str | None


@dataclass(frozen=True, slots=True)
class Steps:
    """What became of the steps so far."""

    completed: int
    incomplete: Mapping[str, int]
    excluded: Mapping[str, int]
    last_completed_at: float | None  # unix time
    histogram: StepHistogram
    quantiles_seconds: Mapping[str, float]  # p50 ... max, over the run
    lengths: StepHistogram  # in finer steps than `histogram`, over the range that occurred
    parts: tuple[Part, ...]  # the run in order; not in the Snapshots that are served


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """A phase of one step on one rank; its last end, from the step's own."""

    phase: str
    seconds: float
    ended_before_seconds: float | None  # None: it is here and there in the step


@dataclass(frozen=True, slots=True)
class RankStep:
    """One step on one rank."""

    rank: int
    seconds: float
    ended_at: float  # unix time
    phases: tuple[PhaseTime, ...]


@dataclass(frozen=True, slots=True)
class Outlier:
    """A completed step that stood out: much longer than the others, or held up by one rank."""

    number: int  # of all that were kept, from 1
    step: int
    seconds: float  # its maximum over ranks
    typical_seconds: float  # the median of the steps before it
    culprit: int | None  # the rank that the others waited for
    phase: str | None  # in which it was slow
    lost_seconds: float
    ranks: tuple[RankStep, ...]

    @property
    def ended_at(self) -> float:
        """Unix time at which its last rank was done."""
        return max(of.ended_at for of in self.ranks)


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank: who it is and what it has reported so far."""

    rank: int
    local_rank: int
    node_rank: int
    host: str
    device: str
    gpu_uuid: str
    group: str
    reporting: bool  # heard of lately
    present: bool  # reporting, or said goodbye; a rank that is not has no series
    parted: bool  # said goodbye
    step: int
    phase: str
    tagged: bool  # the step under way is an evaluation, a checkpoint or the like
    steps: int
    phase_seconds: Mapping[str, float]
    samples: float | None
    overhead_seconds: float
    cpu_seconds: float | None
    cpu_cores: float | None  # in use lately
    resident_bytes: float | None
    memory_limit_bytes: float | None
    allocation_retries: int  # so far, tagged steps included
    lost_seconds: Mapping[str, float]  # that others waited for it so far, by phase
    records_received: int
    records_dropped: Mapping[str, int]

    @property
    def all_lost_seconds(self) -> float:
        """What others have waited for it so far, in all phases."""
        return sum(self.lost_seconds.values())


@dataclass(frozen=True, slots=True)
class Absence:
    """A rank that should be there and is not."""

    rank: int
    step: int | None  # that it was in when last heard of; None if it never was
    phase: str
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU at this moment."""

    index: int
    uuid: str
    utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_size_bytes: float | None
    temperature_celsius: float | None
    power_watts: float | None
    power_limit_watts: float | None
    throttled: tuple[str, ...]  # why its clocks are held back, if they are
    sm_clock_hertz: float | None
    sm_clock_max_hertz: float | None
    errors: Mapping[str, int]  # ecc_corrected, ecc_uncorrected, xid: in the run so far


@dataclass(frozen=True, slots=True)
class Host:
    """The machine at this moment."""

    cpu_utilization_ratio: float | None
    memory_used_bytes: float | None
    memory_size_bytes: float
    gpus: tuple[Gpu, ...] = ()
    gpu_failures: int = 0  # GPUs that could not be read, so far


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A GPU over some time; what was never measured is None."""

    index: int
    uuid: str
    utilization_ratio: float | None  # mean
    memory_ratio: float | None  # highest
    temperature_celsius: float | None  # highest
    power_ratio: float | None  # mean, of its limit
    throttled_ratio: float  # of the samples
    throttled: tuple[str, ...]  # for these reasons
    slowed_ratio: float = 0.0  # of the samples: throttled not just by the cap on its power
    sm_clock_hertz: float | None = None  # mean, while it had work
    sm_clock_max_hertz: float | None = None
    power_watts: float | None = None  # mean
    errors: Mapping[str, int] = field(default_factory=dict)  # by kind, as far as they are counted


@dataclass(frozen=True, slots=True)
class HostUse:
    """The machine over some time."""

    samples: int
    cpu_utilization_ratio: float | None  # mean
    memory_ratio: float | None  # highest
    gpus: tuple[GpuUse, ...]


@dataclass(frozen=True, slots=True)
class Exports:
    """What became of what was sent through OTLP: data points, and traces of steps."""

    sent: Mapping[str, int]  # by signal: metrics, traces
    lost: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What TraceML itself took and lost, over all ranks."""

    overhead_seconds_per_step: float | None
    records_received: int
    records_dropped: Mapping[str, int]  # by the reason for it; only reasons that there were
    records_unjournaled: int  # taken while the journal could not be written
    requests_refused: Mapping[str, int]  # by the reason for it
    sidecar_restarts: int
    exports: Exports | None = None  # None: nothing is sent


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
    recent: Statistics  # the last quarter of the window
    whole: Statistics
    memory_trends: Mapping[int, MemoryTrend]  # by rank: what stays allocated, or the resident set
    host: Host | None
    host_window: HostUse
    host_whole: HostUse
    telemetry: Telemetry
    notes: tuple[str, ...]
    processes: Mapping[str, Spread] = field(default_factory=dict)  # cpu_cores, resident_bytes: now
    turns: tuple[Turn, ...] = ()  # the last of them
    outliers: tuple[Outlier, ...] = ()  # the last of them
    clock_shift_seconds: float = 0.0  # the system's clock was set, and is ahead by so much
    coverage: Coverage | None = None  # None for a Snapshot of the sidecar's own
    window_diagnoses: Diagnoses = field(default_factory=dict)
    whole_diagnoses: Diagnoses = field(default_factory=dict)

    @property
    def now(self) -> float:
        """Unix time of this picture."""
        return self.run.started_at + self.run.duration_seconds

    @property
    def last_step_shown_at(self) -> float | None:
        """When the last step was completed, as somebody with the system's clock would say."""
        at = self.steps.last_completed_at
        return None if at is None else at + self.clock_shift_seconds

    @property
    def idle_seconds(self) -> float | None:
        """Since the last step was completed; None before the first."""
        since = self.steps.last_completed_at
        return None if since is None else self.now - since

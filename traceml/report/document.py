"""The final summary as typed data: what `final_summary.json` holds, and what all its forms show.

Its JSON Schema is made from these classes. Times are seconds, memory is bytes, ratios
go from 0 to 1 where a whole is meant; what is None was not measured, and is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from traceml.report.typed import Amount, Count

SCHEMA_VERSION: Literal[1] = 1

Domain = Literal["step_time", "step_memory", "system", "process"]
Severity = Literal["info", "warning", "critical"]
Status = Literal["running", "completed", "failed", "interrupted"]
Clock = Annotated[Literal["device", "cpu", "mixed"], "whose clock the times are of"]


@dataclass(frozen=True, slots=True)
class Run:
    """The run itself."""

    name: str
    id: str
    status: Status
    exit_code: int | None
    started_at: Annotated[str, "ISO 8601, UTC"]
    duration_seconds: Amount
    world_size: Count | None = None
    nnodes: Count | None = None
    strategy: str | None = None
    device: str | None = None
    torch: str | None = None
    python: str | None = None
    traceml: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that holds: what, how grave, where, why, and what to do next."""

    domain: Domain
    state: Annotated[str, "in upper snake case; the list of each domain is in the docs"]
    severity: Severity
    rank: Count | None
    phase: str | None
    summary: str
    action: str | None = None
    lost_seconds_per_step: Amount | None = None
    chronic: Annotated[bool | None, "in most steps, as against now and then"] = None
    confidence: Literal["high", "medium", "low"] = "high"
    evidence: Mapping[str, float | str] | None = None


@dataclass(frozen=True, slots=True)
class TimeSpread:
    """A time over the ranks: the lower median against the largest."""

    median_seconds: Amount
    worst_seconds: Amount
    worst_rank: Count
    skew_ratio: Annotated[Amount | None, "(worst - median) / median"] = None


@dataclass(frozen=True, slots=True)
class PhaseSpread:
    """A phase over the ranks, and its share of the typical step."""

    median_seconds: Amount
    worst_seconds: Amount
    worst_rank: Count
    skew_ratio: Annotated[Amount | None, "(worst - median) / median"] = None
    share_ratio: Amount | None = None


@dataclass(frozen=True, slots=True)
class MemorySpread:
    """An amount of memory over the ranks."""

    median_bytes: Amount
    worst_bytes: Amount
    worst_rank: Count
    skew_ratio: Amount | None = None


@dataclass(frozen=True, slots=True)
class CoreSpread:
    """How many cores the ranks' processes used lately."""

    median: Amount
    worst: Amount
    worst_rank: Count
    skew_ratio: Amount | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What became of the steps."""

    completed: Annotated[Count, "all that every rank of the node has reported"]
    incomplete: Count
    excluded: Annotated[Mapping[str, Count], "of the completed, by tag: not in the statistics"]


@dataclass(frozen=True, slots=True)
class Part:
    """Some steps in a row, tagged ones left out; all parts but the last are equally long."""

    steps: Count
    seconds: Annotated[Amount, "the mean length of a step"]
    longest_seconds: Amount
    excluded: Annotated[Count, "tagged steps that fell into it"]
    ended_after_seconds: Annotated[Amount, "counted from the start of the run"]
    phases: Annotated[Mapping[str, Amount], "lower median over the ranks of each rank's mean"]
    memory_median_bytes: Amount | None = None
    memory_worst_bytes: Amount | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """How long completed, untagged steps took, each as long as on its slowest rank."""

    bounds_seconds: tuple[Amount, ...]
    counts: Annotated[tuple[Count, ...], "steps below each bound and above the one before it"]
    parts: Annotated[tuple[Part, ...], "the run in order, in at most 256 parts"]


@dataclass(frozen=True, slots=True)
class Turn:
    """From then on this was the primary finding on the latest steps."""

    after_seconds: Annotated[Amount, "counted from the start of the run"]
    state: str
    severity: Severity
    rank: Count | None = None
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class StepTime:
    """What a step takes, phase by phase, and what holds it back."""

    diagnosis: Finding
    findings: tuple[Finding, ...]
    clock: Clock
    steps: Steps
    step: TimeSpread | None
    phases: Mapping[str, PhaseSpread]
    step_quantiles_seconds: Mapping[str, Amount]
    distribution: Distribution | None = None
    timeline: Annotated[tuple[Turn, ...], "the last 200 at most"] = ()
    last_completed_after_seconds: Annotated[Amount | None, "since the start of the run"] = None


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The peaks of memory in the steps."""

    diagnosis: Finding
    findings: tuple[Finding, ...]
    kind: Annotated[str, "what `peak` is of: allocated, or rss where there is no device"]
    peak: MemorySpread | None = None
    peaks: Annotated[Mapping[str, MemorySpread] | None, "by kind: allocated, reserved, rss"] = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU over the run."""

    gpu: Count
    uuid: str
    utilization_ratio: Annotated[Amount | None, "mean"] = None
    memory_peak_ratio: Amount | None = None
    temperature_peak_celsius: float | None = None
    power_ratio: Annotated[Amount | None, "mean, of its limit"] = None
    throttled_ratio: Annotated[Amount | None, "of the samples"] = None
    throttled: Annotated[tuple[str, ...], "for these reasons"] = ()
    sm_clock_hertz: Annotated[Amount | None, "mean, while it had work"] = None
    sm_clock_max_hertz: Amount | None = None
    power_watts: Annotated[Amount | None, "mean"] = None
    errors: Annotated[
        Mapping[str, Count] | None, "in the run, by kind: ecc_corrected, ecc_uncorrected, xid"
    ] = None


@dataclass(frozen=True, slots=True)
class System:
    """The machine over the run."""

    diagnosis: Finding
    findings: tuple[Finding, ...]
    host_memory_size_bytes: Amount | None = None
    host_memory_peak_ratio: Amount | None = None
    host_cpu_utilization_ratio: Annotated[Amount | None, "mean"] = None
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """The ranks' processes, when they were last heard of."""

    diagnosis: Finding
    findings: tuple[Finding, ...]
    cpu_cores: CoreSpread | None = None
    resident: MemorySpread | None = None


@dataclass(frozen=True, slots=True)
class RankMemory:
    """A rank's peaks, and its limit."""

    allocated_peak_bytes: Amount | None = None
    reserved_peak_bytes: Amount | None = None
    rss_peak_bytes: Amount | None = None
    limit_bytes: Amount | None = None


@dataclass(frozen=True, slots=True)
class RankProcess:
    """What a rank's process has used."""

    cpu_seconds: Amount | None = None
    cpu_cores: Annotated[Amount | None, "lately"] = None
    resident_bytes: Annotated[Amount | None, "when it was last heard of"] = None


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: who it is, and its typical step."""

    rank: Count
    node: Count
    local_rank: Count
    device: str
    steps: Count
    phases: Mapping[str, Amount]
    memory: RankMemory
    process: RankProcess
    lost_seconds: Annotated[Amount, "that the others waited for it, over the run"]
    lost_seconds_by_phase: Mapping[str, Amount] | None = None
    step_seconds: Amount | None = None
    own_seconds: Annotated[Amount | None, "all phases but collective_wait"] = None
    wait_seconds_by_place: Annotated[
        Mapping[str, Amount] | None, "its collective_wait, by the part of the step it lies in"
    ] = None
    device_idle_ratio: Annotated[
        Amount | None, "of its step: its device had done all that was queued, within compute"
    ] = None
    host: str | None = None
    gpu_uuid: str | None = None
    group: Annotated[str | None, "ranks of one group hold the same share of the model"] = None
    samples: Amount | None = None
    left_in_good_order: bool = False
    last_step: Count = 0
    last_phase: str | None = None


@dataclass(frozen=True, slots=True)
class AbsentRank:
    """A rank that should have been there at the end and was not."""

    rank: Count
    last_step: Count | None = None
    last_phase: str | None = None
    silent_seconds: Amount = 0.0


@dataclass(frozen=True, slots=True)
class Otlp:
    """What became of what was sent through OTLP, by signal."""

    sent: Mapping[str, Count]
    lost: Mapping[str, Count]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What TraceML itself took and lost."""

    overhead_seconds_per_step: Amount | None
    records_received: Count
    records_dropped: Count
    sidecar_restarts: Count
    records_dropped_by_reason: Mapping[str, Count] | None = None
    records_unjournaled: Count = 0
    requests_refused: Count = 0
    otlp: Annotated[Otlp | None, "absent where nothing is sent"] = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the run this tells, where it was made anew from the journal."""

    until: Annotated[str, "ISO 8601, UTC"]
    whole: bool
    unread_bytes: Count
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of a run of TraceML's. Times are in seconds, memory in bytes, ratios are
    fractions; what was not measured is absent. More keys may stand beside those named here.
    """

    schema_version: Literal[1]
    run: Run
    primary_diagnosis: Finding
    step_time: StepTime
    step_memory: StepMemory
    system: System
    process: Process
    ranks: tuple[Rank, ...]
    telemetry: Telemetry
    absent_ranks: tuple[AbsentRank, ...] = ()
    notes: tuple[str, ...] = ()
    coverage: Coverage | None = None

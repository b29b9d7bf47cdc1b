"""What a rule finds: what is wrong, where, why, and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass

STEP_TIME, STEP_MEMORY, SYSTEM, PROCESS = DOMAINS = (
    "step_time",
    "step_memory",
    "system",
    "process",
)

INFO, WARNING, CRITICAL = SEVERITIES = ("info", "warning", "critical")

# Of a domain, in the order in which one goes before another of equal weight.
STATES: Mapping[str, tuple[str, ...]] = {
    STEP_TIME: (
        "NO_DATA", "STALLED", "INPUT_STRAGGLER", "COMPUTE_STRAGGLER", "STRAGGLER", "INPUT_BOUND",
        "H2D_BOUND", "COMM_BOUND", "LAUNCH_BOUND", "WAIT_HEAVY", "JITTER", "COMPUTE_BOUND",
        "BALANCED",
    ),
    STEP_MEMORY: (
        "NO_DATA", "HIGH_PRESSURE", "IMBALANCE", "MEMORY_CREEP", "MEMORY_CREEP_EARLY", "BALANCED",
    ),
    SYSTEM: (
        "NO_DATA", "VERY_HIGH_GPU_MEMORY", "HIGH_GPU_TEMPERATURE", "GPU_THROTTLED",
        "HIGH_GPU_MEMORY", "HIGH_GPU_POWER", "HIGH_HOST_MEMORY", "HIGH_CPU", "LOW_GPU_UTILIZATION",
        "MODERATE_GPU_UTILIZATION", "NORMAL",
    ),
    PROCESS: (
        "NO_DATA", "HIGH_GPU_MEMORY", "RESERVED_OVERHANG", "RANK_GPU_MEMORY_IMBALANCE", "HIGH_RSS",
        "HIGH_CPU", "NORMAL",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that holds. None means that there is no such thing, or that it is not known."""

    domain: str
    state: str
    severity: str
    summary: str  # why, in one sentence with numbers
    action: str = ""  # the next thing to do
    rank: int | None = None
    phase: str | None = None
    lost_seconds_per_step: float | None = None  # what a step would be shorter without it
    chronic: bool | None = None  # in most steps, as against now and then
    confidence: str = "high"  # high, medium, low
    evidence: Mapping[str, float | int | str] | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that the rules of one domain say of one scope."""

    findings: tuple[Finding, ...]  # the primary one first; never empty
    scores: Mapping[str, float]  # measured over warning threshold; a rule that abstains has none

    @property
    def primary(self) -> Finding:
        """The finding that counts."""
        return self.findings[0]


Diagnoses = Mapping[str, Diagnosis]  # by domain


def primary(diagnoses: Diagnoses) -> Finding:
    """What counts most in a run: its steps' time, unless their memory is in greater danger.

    System and process are context, and never count more than these.
    """
    time, memory = diagnoses[STEP_TIME].primary, diagnoses[STEP_MEMORY].primary
    is_graver = SEVERITIES.index(memory.severity) > SEVERITIES.index(time.severity)
    return memory if is_graver else time


def title(state: str) -> str:
    """A state as people read it."""
    for plain, written in (("_BOUND", "-BOUND"), ("_HEAVY", "-HEAVY"), ("_EARLY", " (EARLY)")):
        state = state.replace(plain, written)
    return state.replace("_", " ")

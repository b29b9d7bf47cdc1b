"""What should be said of a segment."""

from dataclasses import dataclass

from benchmarks.accuracy.schedule import ALL, ROTATING, Segment
from traceml.diagnosis.finding import INFO, STEP_MEMORY, STEP_TIME, Finding
from traceml.diagnosis.policy import DEFAULT

PHASES = {
    "input": "dataloader",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
    "exchange": "collective_wait",
}
_OF_ONE_RANK = {"input": "INPUT_STRAGGLER", "other": "STRAGGLER"}
_OF_ALL_RANKS = {"input": "INPUT_BOUND", "other": "WAIT_HEAVY", "exchange": "COMM_BOUND"}
JITTER = "JITTER"
INFORMATIVE = "COMPUTE_BOUND"  # alarms nobody, so it may take its time, and give way


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a run at one moment, in one domain."""

    state: str
    severity: str = INFO
    rank: int | None = None
    phase: str | None = None
    chronic: bool | None = None

    @classmethod
    def of(cls, finding: Finding) -> "Verdict":
        """The part of a finding that can be right or wrong."""
        return cls(
            finding.state, finding.severity, finding.rank, finding.phase, finding.chronic
        )  # fmt: skip

    @property
    def is_silent(self) -> bool:
        """Whether it alarms nobody."""
        return self.severity == INFO

    def __str__(self) -> str:
        rank = "" if self.rank is None else f" r{self.rank}"
        return f"{self.state}{rank}{f' {self.phase}' if self.phase else ''}"


@dataclass(frozen=True, slots=True)
class Truth:
    """What is there to be found: a domain's state, and whom and what it should name."""

    state: str
    rank: int | None = None
    phase: str | None = None  # None: any
    domain: str = STEP_TIME
    chronic: bool | None = None  # None: either

    def matches(self, verdict: Verdict) -> bool:
        """Whether it was found."""
        return (
            verdict.state == self.state
            and verdict.rank == self.rank
            and self.phase in (None, verdict.phase)
            and self.chronic in (None, verdict.chronic)
        )

    def contradicts(self, verdict: Verdict) -> bool:
        """Whether this alarms of something that is not there."""
        return not verdict.is_silent and not self.matches(verdict)

    def __str__(self) -> str:
        return str(Verdict(self.state, rank=self.rank, phase=self.phase))


def truth_of(segment: Segment) -> Truth | None:
    """What should be found in a segment; None if nothing should."""
    rank = segment.ranks if isinstance(segment.ranks, int) else None
    phase = PHASES.get(segment.place)
    if segment.leak_mib:
        return Truth("MEMORY_CREEP", rank, domain=STEP_MEMORY)
    if segment.stuck:
        # A process that is stopped can't say where: its last word may be of another phase.
        return Truth("STALLED", rank, None if segment.stuck == "stopped" else phase)
    if not segment.delay:
        return None
    if segment.ranks == ROTATING:
        return Truth("STRAGGLER", chronic=False)
    if segment.ranks == ALL:
        state = _of_all_ranks(segment)
        return Truth(state, None, None if state == JITTER else phase)
    return Truth(_OF_ONE_RANK.get(segment.place, "COMPUTE_STRAGGLER"), rank, phase)


def _of_all_ranks(segment: Segment) -> str:
    """Healthy or not, most of a step is compute; but steps that differ that much are no good."""
    differs = segment.every > 1 and 1 + segment.delay >= DEFAULT.jitter_ratio
    return _OF_ALL_RANKS.get(segment.place, JITTER if differs else INFORMATIVE)

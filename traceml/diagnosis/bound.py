"""What the typical step is spent on: rules on the shares of its phases, all ranks alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from traceml import units
from traceml.diagnosis.finding import INFO, STEP_TIME, WARNING, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.straggler import COMPUTE, COMPUTE_AND_WAITS, INPUT, OTHER, lower_median
from traceml.diagnosis.verdict import Verdict, at_most, at_most_medium, severity
from traceml.snapshot import RankTimes, Statistics

_COMM = (
    "Exchange less often or less: gradient accumulation with no_sync(), larger batches, bf16 "
    "compression hooks; check the network between the ranks."
)
_CORES = "The host's CPUs are busy, and ranks wait for a core in the exchange too: free some first."
_UNSEEN = (
    "The waits inside it can't be seen here, see the notes: a profiler tells compute from "
    "collectives. Then mixed precision, torch.compile or a larger batch make compute faster."
)
_ACTIONS = {
    "INPUT_BOUND": "Fetch ahead: more DataLoader workers, a larger prefetch_factor, "
    "persistent_workers, data closer to the machine or already decoded.",
    "H2D_BOUND": "Overlap the copies: pin_memory=True in the DataLoader, non_blocking=True in "
    "`.to()`, fewer and larger copies.",
    "COMM_BOUND": _COMM,
    "WAIT_HEAVY": "Look at what the loop does between its phases: logging, metrics, `.item()` and "
    "other reads from the device, checkpoints, a loader that is not torch's.",
    "COMPUTE_BOUND": "The model's own work is the limit: mixed precision, torch.compile, a larger "
    "batch, or more devices make it faster.",
    "JITTER": "Look at what happens only in the long steps: garbage collection, checkpoints, "
    "evaluation, other jobs on the machine.",
}


@dataclass(frozen=True, slots=True)
class Shares:
    """Judges the typical step of one scope."""

    statistics: Statistics
    policy: Policy
    floor_seconds: float
    step_seconds: float
    sees_whole_world: bool
    sees_waits: bool  # or there is nobody to wait for
    is_exact: bool  # the clock shows what the device waited for, not what the CPU did
    is_contended: bool  # ranks that compute on the CPU have none to spare
    is_crowded: bool  # and too little of it
    confidence: str

    def verdicts(self) -> Iterator[Verdict]:
        """Of the rules on one cause each, in the order of their table."""
        policy = self.policy
        yield self._capped(
            self._bound("INPUT_BOUND", INPUT, policy.input_warning, policy.input_critical)
        )
        yield self._capped(
            self._bound("H2D_BOUND", ("h2d",), policy.h2d_warning, policy.h2d_critical)
        )
        yield self._exchange()
        yield self._capped(
            self._bound("WAIT_HEAVY", OTHER, policy.wait_warning, policy.wait_critical)
        )

    def jitter(self) -> Verdict:
        """Steps of very different length, if nothing else explains that."""
        lengths = self.statistics.lengths
        if lengths is None or lengths.p50_seconds < self.floor_seconds:
            return Verdict("JITTER")
        if (lengths.length_explained_ratio or 0.0) >= self.policy.explained_ratio:
            return Verdict("JITTER")
        ratio = lengths.p95_seconds / lengths.p50_seconds
        score = ratio / self.policy.jitter_ratio
        if score < 1:
            return Verdict("JITTER", score)
        lost = lengths.p95_seconds - lengths.p50_seconds
        summary = (
            f"One step in twenty takes {units.seconds(lengths.p95_seconds)} or longer, the median "
            f"step {units.seconds(lengths.p50_seconds)}: {ratio:.1f} times as long."
        )
        evidence = {"p95_seconds": lengths.p95_seconds, "p50_seconds": lengths.p50_seconds}
        finding = Finding(
            STEP_TIME, "JITTER", WARNING, summary, _ACTIONS["JITTER"],
            lost_seconds_per_step=lost / 20, chronic=False, confidence=self.confidence,
            evidence=evidence,
        )  # fmt: skip
        return Verdict("JITTER", score, finding, lost / 20 / self.step_seconds)

    def compute(self) -> Verdict:
        """Nothing but the model's own work: the best there is, and where to look for more."""
        value = self._typical(COMPUTE)
        if value is None:
            return Verdict("COMPUTE_BOUND")
        seconds, phase = value
        share = seconds / self.step_seconds
        score = share / self.policy.compute_ratio
        if score < 1:
            return Verdict("COMPUTE_BOUND", score)
        largest = self.statistics.phases[phase].spread.median
        what = "The model's own work is" if self.sees_waits else f"{COMPUTE_AND_WAITS} are"
        summary = (
            f"{what} {units.ratio(share)} of the step, most of it {phase} "
            f"({units.seconds(largest)} of {units.seconds(self.step_seconds)})."
        )
        finding = Finding(
            STEP_TIME, "COMPUTE_BOUND", INFO, summary, _ACTIONS["COMPUTE_BOUND"], phase=phase,
            chronic=True, confidence=self.confidence, evidence={"share_ratio": share},
        )  # fmt: skip
        if not self.sees_waits:
            unsure = at_most_medium(self.confidence)
            finding = replace(finding, confidence=unsure, action=_UNSEEN)
        return Verdict("COMPUTE_BOUND", score, finding)

    def _capped(self, verdict: Verdict) -> Verdict:
        """On the wrong clock a fetch that is hidden behind the device's work looks like a cost."""
        if self.is_exact or verdict.finding is None:
            return verdict
        return Verdict(verdict.state, verdict.score, at_most(verdict.finding, INFO), verdict.share)

    def _exchange(self) -> Verdict:
        lengths = self.statistics.lengths
        known = lengths.exchange_seconds if lengths is not None else None
        if known is None or not self.sees_whole_world:
            return Verdict("COMM_BOUND")
        policy = self.policy
        warning, critical = policy.comm_warning, policy.comm_critical
        if self.is_crowded:
            warning, critical = warning * policy.contended_factor, 1.0
        verdict = self._judged("COMM_BOUND", known, "collective_wait", warning, critical)
        if verdict.finding is None:
            return verdict
        finding = _with_places(verdict.finding, self._typical_waits())
        if self.is_contended:
            finding = replace(
                at_most(finding, WARNING), confidence="low", action=f"{_CORES} {_COMM}"
            )
        return replace(verdict, finding=finding)

    def _typical_waits(self) -> Mapping[str, float]:
        """Where the rank with the median waiting waits."""

        def waited(times: RankTimes) -> float:
            return times.phases.get("collective_wait", 0.0)

        ordered = sorted(self.statistics.ranks.values(), key=waited)
        return ordered[(len(ordered) - 1) // 2].wait_seconds

    def _bound(self, state: str, phases: Sequence[str], warning: float, critical: float) -> Verdict:
        value = self._typical(phases)
        if value is None:
            return Verdict(state)
        return self._judged(state, *value, warning, critical)

    def _judged(
        self, state: str, seconds: float, phase: str, warning: float, critical: float
    ) -> Verdict:
        share = seconds / self.step_seconds if seconds >= self.floor_seconds else 0.0
        score = share / warning
        if score < 1:
            return Verdict(state, score)
        what = (
            "The exchange between the ranks" if state == "COMM_BOUND" else f"Every rank's {phase}"
        )
        summary = (
            f"{what} takes {units.seconds(seconds)} of a step of "
            f"{units.seconds(self.step_seconds)}: {units.ratio(share)} of it."
        )
        finding = Finding(
            STEP_TIME, state, severity(share, warning, critical), summary, _ACTIONS[state],
            phase=phase, lost_seconds_per_step=seconds, chronic=True, confidence=self.confidence,
            evidence={"seconds": seconds, "share_ratio": share},
        )  # fmt: skip
        return Verdict(state, score, finding, share)

    def _typical(self, phases: Sequence[str]) -> tuple[float, str] | None:
        """The median rank's time in these phases, and the largest of them; None if not measured."""
        medians = {
            phase: self.statistics.phases[phase].spread.median
            for phase in phases
            if phase in self.statistics.phases
        }
        if not medians:
            return None
        largest = max(medians, key=medians.__getitem__)
        if len(medians) == 1:
            return medians[largest], largest
        of_ranks = [times.phases for times in self.statistics.ranks.values()]
        sums = [sum(map(of.__getitem__, medians)) for of in of_ranks if of.keys() >= medians.keys()]
        return (lower_median(sums), largest) if sums else None


def _with_places(finding: Finding, waits: Mapping[str, float]) -> Finding:
    """The same, and where the typical rank waits."""
    total = sum(waits.values())
    if not total:
        return finding
    most = max(waits, key=waits.__getitem__)
    where = (
        f" A typical rank waits most in {most} "
        f"({units.seconds(waits[most])} of {units.seconds(total)})."
    )
    places = {f"{place}_wait_seconds": seconds for place, seconds in waits.items()}
    evidence = {**(finding.evidence or {}), **places}
    return replace(finding, summary=finding.summary + where, evidence=evidence)

"""One rank that holds back all: who has more work of its own than the others, and is late with it.

A rank is compared with the lower median of the other ranks of its group, a real rank's
value, so that at two ranks the excess is not halved, nor where half of the ranks are slow.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from traceml import units
from traceml.diagnosis.finding import STEP_TIME, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.verdict import Verdict, severity
from traceml.snapshot import RankTimes, Statistics

Group: TypeAlias = Mapping[int, Mapping[str, float]]  # seconds by rank and phase

INPUT = ("dataloader", "h2d")
COMPUTE = ("forward", "backward", "optimizer")
OTHER = ("other",)

# What is measured as compute where waits can't be told from it.
COMPUTE_AND_WAITS = "Compute and the collectives inside it"

_ACTIONS = {
    "dataloader": "Look at what rank {rank} reads and how: its storage, its number of workers, "
    "the size of its shard.",
    "h2d": "Look at how rank {rank}'s batches get to its device: pinned memory, the slot its "
    "card sits in, the NUMA node its process runs on.",
    "forward": "Compare rank {rank} with the others: clocks, temperature, other processes on its "
    "device or cores, the length of its inputs.",
    "backward": "Compare rank {rank} with the others: clocks, temperature, other processes on its "
    "device or cores, the length of its inputs.",
    "optimizer": "Look at what only rank {rank} does in its optimizer step: parameters that only "
    "it holds, hooks, an offloaded state.",
    "other": "Look at what only rank {rank} does between its phases: logging, metrics, "
    "checkpoints, a busy core.",
}


_EVEN = "Spread the work evenly: batches of equal size and samples of like length on all ranks."


@dataclass(frozen=True, slots=True)
class Cause:
    """What is known of a rank that would explain why it is slow."""

    sentence: str
    evidence: Mapping[str, float | str]


NO_CAUSE = Cause("", {})


@dataclass(frozen=True, slots=True)
class Excess:
    """What a rank does longer than the others."""

    rank: int
    phase: str  # where most of it is
    seconds: float
    value_seconds: float  # of this rank
    others_seconds: float
    late_ratio: float


NO_EXCESS = Excess(
    rank=-1, phase="", seconds=0.0, value_seconds=0.0, others_seconds=0.0, late_ratio=0.0
)


def lower_median(values: Sequence[float]) -> float:
    """A median that is one of the values."""
    return sorted(values)[(len(values) - 1) // 2]


def medians_of_others(values: Mapping[int, float]) -> dict[int, float]:
    """For each of two or more ranks the lower median of the others."""
    ordered = sorted(values.values())
    middle = (len(ordered) - 2) // 2
    below, above = ordered[middle], ordered[middle + 1]
    return {rank: below if value > below else above for rank, value in values.items()}


def excesses(
    ranks: Mapping[int, RankTimes], phases: Sequence[str], least_seconds: float = -math.inf
) -> list[Excess] | None:
    """What ranks do longer than the others over all of these phases, if it is as much as that.

    None if there is nobody to compare.
    """
    groups = list(_comparable(ranks, phases))
    if not groups:
        return None
    return [each for group in groups for each in _of_group(group, ranks, least_seconds)]


def _comparable(ranks: Mapping[int, RankTimes], phases: Sequence[str]) -> Iterator[Group]:
    """Groups of several ranks, by rank their times in those of the phases that all have."""
    groups: dict[str, dict[int, Mapping[str, float]]] = {}
    for rank, times in ranks.items():
        groups.setdefault(times.group, {})[rank] = times.phases
    for members in groups.values():
        common = [p for p in phases if all(p in of for of in members.values())]
        if len(members) > 1 and common:
            yield {rank: {p: of[p] for p in common} for rank, of in members.items()}


def _of_group(
    group: Group, ranks: Mapping[int, RankTimes], least_seconds: float
) -> Iterator[Excess]:
    totals = {rank: sum(of.values()) for rank, of in group.items()}
    typical = medians_of_others(totals)
    for rank, total in totals.items():
        if total - typical[rank] >= least_seconds:
            phase = _where_most(group, rank)
            late = ranks[rank].late_ratio.get(phase, 0.0)
            yield Excess(rank, phase, total - typical[rank], total, typical[rank], late)


def _where_most(group: Group, rank: int) -> str:
    """The phase in which a rank exceeds the others the most."""
    others = [of for number, of in group.items() if number != rank]
    over = {p: own - lower_median([of[p] for of in others]) for p, own in group[rank].items()}
    return max(over, key=over.__getitem__)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the ranks of one scope."""

    statistics: Statistics
    policy: Policy
    floor_seconds: float
    step_seconds: float  # the typical one
    causes: Callable[[int], Cause]  # of a rank that computes slowly
    is_contended: bool  # ranks that compute on the CPU have none to spare
    sees_waits: bool  # else ranks are judged by when they end their phases alone
    confidence: str

    def verdicts(self) -> Iterator[Verdict]:
        """Of the three rules, in the order of their table."""
        given = self._worst(INPUT)
        computed = self._worst(COMPUTE)
        yield self._verdict("INPUT_STRAGGLER", given)
        yield self._verdict("COMPUTE_STRAGGLER", computed)
        yield self._anything(given, computed)

    def _worst(self, phases: Sequence[str]) -> Excess | None:
        """The largest excess that made its rank late; None if there is nobody to compare."""
        found = excesses(self.statistics.ranks, phases, self.floor_seconds)
        if found is None:
            return None
        late = (each for each in found if self._is_late(each))
        return max(late, key=lambda each: each.seconds, default=NO_EXCESS)

    def _is_late(self, excess: Excess) -> bool:
        """Whether its excess made the rank late, and so others wait.

        `other` may be anywhere in a step: there it can have made up for it long before they meet.
        """
        if excess.phase in OTHER and not self.statistics.ranks[excess.rank].led_ratio:
            return False
        return excess.late_ratio >= self.policy.late_ratio

    def _share(self, excess: Excess) -> float:
        return excess.seconds / self.step_seconds

    def _holds(self, excess: Excess | None) -> bool:
        return excess is not None and self._share(excess) >= self.policy.straggler_warning

    def _verdict(self, state: str, excess: Excess | None) -> Verdict:
        if excess is None:
            return Verdict(state)
        share = self._share(excess)
        score = share / self.policy.straggler_warning
        finding = self._finding(state, excess, share) if self._holds(excess) else None
        return Verdict(state, score, finding, share)

    def _anything(self, given: Excess | None, computed: Excess | None) -> Verdict:
        """A rank slow in both, or in neither; or now this rank, now that."""
        elsewhere = self._worst(OTHER)
        if given and computed and given.rank == computed.rank:
            both = _both(given, computed)
            most = elsewhere is None or both.seconds >= elsewhere.seconds
            if most and self._holds(given) and self._holds(computed):
                return self._verdict("STRAGGLER", both)
        verdict = self._verdict("STRAGGLER", elsewhere)
        if verdict.finding or self._holds(given) or self._holds(computed):
            return verdict
        passing = self._passing()
        return passing if (passing.score or 0.0) > (verdict.score or 0.0) else verdict

    def _passing(self) -> Verdict:
        lengths, ranks = self.statistics.lengths, self.statistics.ranks
        if lengths is None or lengths.imbalance_seconds is None or len(ranks) < 2:
            return Verdict("STRAGGLER")
        seconds = lengths.imbalance_seconds
        lost = {rank: sum(times.lost_seconds.values()) for rank, times in ranks.items()}
        total = sum(lost.values())
        # Whoever has more than half of what is above an even share leads.
        leads = total > 0 and max(lost.values()) / total > (1 + 1 / len(ranks)) / 2
        explained = (lengths.imbalance_explained_ratio or 0.0) >= self.policy.explained_ratio
        if leads or explained or seconds < self.floor_seconds or not total:
            return Verdict("STRAGGLER")
        share, limit = seconds / self.step_seconds, self.policy.straggler_warning
        if self.is_contended:
            limit *= self.policy.contended_factor
            if not self._is_in_one_phase():
                return Verdict("STRAGGLER")
        if share < limit:
            return Verdict("STRAGGLER", share / limit)
        return Verdict("STRAGGLER", share / limit, self._passing_finding(seconds, share), share)

    def _is_in_one_phase(self) -> bool:
        """Whether what is lost is not spread over the phases as the work is.

        Ranks that fight for cores lose time wherever they are.
        """
        ranks = self.statistics.ranks.values()
        lost, work = Counter[str](), Counter[str]()
        for times in ranks:
            lost.update(times.lost_seconds)
            work.update({phase: times.phases.get(phase, 0.0) for phase in times.lost_seconds})
        if not work.total():
            return False
        most = max(lost, key=lost.__getitem__)
        spread = work[most] / work.total()
        return lost[most] / lost.total() - spread >= self.policy.concentrated_ratio

    def _passing_finding(self, seconds: float, share: float) -> Finding:
        return Finding(
            domain=STEP_TIME,
            state="STRAGGLER",
            severity=self._severity(share),
            summary=(
                f"In each step the ranks wait {units.seconds(seconds)} for another of them: "
                f"{units.ratio(share)} of the step, and none of them leads."
            ),
            action="Look for work that differs from batch to batch: the length of samples, "
            "padding, how they are spread over ranks; or for other processes on the machine.",
            lost_seconds_per_step=seconds,
            chronic=False,
            confidence=self.confidence,
            evidence={"imbalance_seconds": seconds, "share_ratio": share},
        )

    def _finding(self, state: str, excess: Excess, share: float) -> Finding:
        times = self.statistics.ranks[excess.rank]
        cause = self.causes(excess.rank) if state != "INPUT_STRAGGLER" else NO_CAUSE
        return Finding(
            domain=STEP_TIME,
            state=state,
            severity=self._severity(share),
            summary=self._why(excess, share) + cause.sentence,
            action=_EVEN
            if self._batches(excess)
            else _ACTIONS[excess.phase].format(rank=excess.rank),
            rank=excess.rank,
            phase=excess.phase,
            lost_seconds_per_step=excess.seconds,
            chronic=times.led_ratio >= self.policy.chronic_ratio if self.sees_waits else None,
            confidence=self.confidence,
            evidence={
                "excess_seconds": excess.seconds,
                "rank_seconds": excess.value_seconds,
                "others_seconds": excess.others_seconds,
                "share_ratio": share,
                "late_ratio": excess.late_ratio,
                "led_ratio": times.led_ratio,
                **cause.evidence,
            },
        )

    def _severity(self, share: float) -> str:
        return severity(share, self.policy.straggler_warning, self.policy.straggler_critical)

    def _why(self, excess: Excess, share: float) -> str:
        return (
            f"Rank {excess.rank} takes {units.seconds(excess.seconds)} a step longer than the "
            f"others, most of it in {self._where(excess)}: {units.ratio(share)} of "
            f"the step{self._how_often(excess)}.{self._batches(excess)}"
        )

    def _where(self, excess: Excess) -> str:
        """The phase, and what its excess did to the others."""
        if self.sees_waits:
            return f"{excess.phase}, and they wait for it"
        inside = f" ({COMPUTE_AND_WAITS.lower()})" if excess.phase in COMPUTE else ""
        return f"{excess.phase}{inside}, and it ends that later than they do"

    def _how_often(self, excess: Excess) -> str:
        led = self.statistics.ranks[excess.rank].led_ratio
        if led >= self.policy.chronic_ratio or not self.sees_waits:
            return ""
        return f" on average, in {units.ratio(led)} of the steps"

    def _batches(self, excess: Excess) -> str:
        """Said where a rank simply has more to do."""
        ranks = self.statistics.ranks
        own = ranks[excess.rank].elements
        others = [t.elements for r, t in ranks.items() if r != excess.rank and t.elements]
        if not own or not others or excess.others_seconds <= 0:
            return ""
        more = own / lower_median(others) - 1
        if more < excess.seconds / excess.others_seconds / 2:
            return ""
        return f" Its batches are {units.ratio(more)} larger."


def _both(given: Excess, computed: Excess) -> Excess:
    larger = max(given, computed, key=lambda each: each.seconds)
    return Excess(
        rank=given.rank,
        phase=larger.phase,
        seconds=given.seconds + computed.seconds,
        value_seconds=given.value_seconds + computed.value_seconds,
        others_seconds=given.others_seconds + computed.others_seconds,
        late_ratio=larger.late_ratio,
    )

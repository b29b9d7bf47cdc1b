"""Step memory: close to the limit, uneven over the ranks, or growing.

On a device it is what its allocator has handed out, and growth is judged on what stays so
between steps. On CPU the resident set stands in, and all ranks share one limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from traceml import units
from traceml.diagnosis.finding import CRITICAL, INFO, STEP_MEMORY, WARNING, Diagnosis, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.straggler import lower_median
from traceml.diagnosis.verdict import Verdict, conclude, severity
from traceml.snapshot import MemoryTrend, Snapshot, Spread, Statistics

_BETWEEN_BANDS = 0.75  # of the steps lie between the middles of the first and the last band

_FREE = (
    "Lower it before it runs out: a smaller batch with accumulation, activation checkpointing, "
    "sharding."
)
_EVEN = "Look at what only rank {rank} holds: the length of its samples, shards, cached tensors."
_LEAK = (
    "Look for what is kept from step to step: losses or outputs stored with their graph (use "
    "`.item()` or `.detach()`), growing lists and caches, retain_graph."
)


def step_memory(snapshot: Snapshot, statistics: Statistics, policy: Policy) -> Diagnosis:
    """What the memory of this scope says; growth is judged over the whole run."""
    kind = "allocated" if "allocated" in statistics.memory else "rss"
    if kind not in statistics.memory:
        nothing = Finding(STEP_MEMORY, "NO_DATA", INFO, "No step has told its memory yet.")
        return conclude(STEP_MEMORY, (), nothing)
    limits = {r.rank: r.memory_limit_bytes for r in snapshot.ranks if r.memory_limit_bytes}
    memory = _Memory(
        kind=kind,
        peak=statistics.memory[kind],
        peaks=statistics.memory_peaks[kind],
        limits=limits,
        retries=statistics.allocation_retries,
        retries_so_far=sum(rank.allocation_retries for rank in snapshot.ranks),
        policy=policy,
    )
    verdicts = [memory.pressure(), memory.imbalance(), *memory.creep(snapshot.memory_trends)]
    return conclude(STEP_MEMORY, verdicts, memory.balanced())


@dataclass(frozen=True, slots=True)
class Growth:
    """A rank whose memory rises, and keeps rising."""

    rank: int
    bytes: float
    ratio: float  # of the baseline
    steps: int
    bytes_per_step: float
    pace: float  # towards its limit, of all that share it


def _sharing(growing: list[Growth]) -> list[Growth]:
    """Together they reach the limit sooner."""
    pace = sum(growth.bytes_per_step for growth in growing)
    return [replace(growth, pace=pace) for growth in growing]


@dataclass(frozen=True, slots=True)
class _Memory:
    kind: str
    peak: Spread
    peaks: Mapping[int, float]
    limits: Mapping[int, float]
    retries: Mapping[int, int]  # in this scope
    retries_so_far: int
    policy: Policy

    @property
    def _is_shared(self) -> bool:
        return self.kind == "rss"

    @property
    def _name(self) -> str:
        return "resident memory" if self._is_shared else "allocated memory"

    @property
    def _floor(self) -> str:
        return self._name if self._is_shared else "memory that stays allocated between steps"

    def balanced(self) -> Finding:
        summary = (
            f"Peak {self._name} is {units.bytes_(self.peak.worst)} on rank "
            f"{self.peak.worst_rank}, {units.bytes_(self.peak.median)} on the median rank, and "
            "does not keep growing."
        )
        return Finding(STEP_MEMORY, "BALANCED", INFO, summary)

    def pressure(self) -> Verdict:
        known = {rank: self.peaks[rank] for rank in self.limits if rank in self.peaks}
        if not known:
            return Verdict("HIGH_PRESSURE")
        rank, used, limit = self._fullest(known)
        ratio = used / limit
        score = max(ratio / self.policy.pressure_warning, 1.0 if self.retries else 0.0)
        if score < 1:
            return Verdict("HIGH_PRESSURE", score)
        whose = "of all ranks" if rank is None else f"of rank {rank}"
        finding = Finding(
            domain=STEP_MEMORY,
            state="HIGH_PRESSURE",
            severity=CRITICAL
            if self.retries
            else severity(ratio, self.policy.pressure_warning, self.policy.pressure_critical),
            summary=f"Peak {self._name} {whose} is {units.bytes_(used)} of "
            f"{units.bytes_(limit)}: {units.ratio(ratio)}.{self._retried()}",
            action=_FREE,
            rank=rank,
            evidence={
                "peak_bytes": used,
                "limit_bytes": limit,
                "retries": sum(self.retries.values()),
                "retries_so_far": self.retries_so_far,
            },
        )
        return Verdict("HIGH_PRESSURE", score, finding, ratio)

    def _fullest(self, known: Mapping[int, float]) -> tuple[int | None, float, float]:
        """Who is closest to its limit, and both; a rank that ran out of memory comes first."""
        if self._is_shared:
            return None, sum(known.values()), max(self.limits.values())
        rank = max(known, key=lambda r: (self.retries.get(r, 0), known[r] / self.limits[r]))
        return rank, known[rank], self.limits[rank]

    def _retried(self) -> str:
        if not self.retries:
            return ""
        times = sum(self.retries.values())
        often = "once" if times == 1 else f"{times} times"
        return (
            f" In these steps the allocator ran out, had to free its cache and try again {often}."
        )

    def imbalance(self) -> Verdict:
        rank, skew = self.peak.worst_rank, self.peak.skew_ratio
        limit = self.limits.get(rank)
        if limit is None or skew is None or len(self.peaks) < 2:
            return Verdict("IMBALANCE")
        policy, used = self.policy, self.peak.worst / limit
        score = min(skew / policy.imbalance_warning, used / policy.imbalance_pressure_warning)
        if score < 1:
            return Verdict("IMBALANCE", score)
        is_critical = (
            skew >= policy.imbalance_critical and used >= policy.imbalance_pressure_critical
        )
        finding = Finding(
            domain=STEP_MEMORY,
            state="IMBALANCE",
            severity=CRITICAL if is_critical else WARNING,
            summary=f"Rank {rank} peaks at {units.bytes_(self.peak.worst)} of {self._name}, "
            f"{units.ratio(skew)} more than the median rank, and at {units.ratio(used)} of its "
            "limit.",
            action=_EVEN.format(rank=rank),
            rank=rank,
            evidence={"skew_ratio": skew, "pressure_ratio": used},
        )
        return Verdict("IMBALANCE", score, finding, skew)

    def creep(self, trends: Mapping[int, MemoryTrend]) -> Iterator[Verdict]:
        judged = {r: t for r, t in trends.items() if t.steps >= self.policy.creep_steps}
        if not judged:
            yield Verdict("MEMORY_CREEP")
            yield Verdict("MEMORY_CREEP_EARLY")
            return
        growing = [g for r, t in judged.items() if (g := self._growth(r, t)) is not None]
        if self._is_shared:
            growing = _sharing(growing)
        late = [growth for growth in growing if self._score(growth) >= 1]
        early = [growth for growth in growing if self._early_score(growth) >= 1]
        score = max(map(self._score, growing), default=0.0)
        early_score = max(map(self._early_score, growing), default=0.0)
        found = self._creeping("MEMORY_CREEP", late, judged) if late else None
        soon = self._creeping("MEMORY_CREEP_EARLY", early, judged) if early else None
        yield Verdict("MEMORY_CREEP", score, found)
        yield Verdict("MEMORY_CREEP_EARLY", early_score, None if late else soon)

    def _growth(self, rank: int, trend: MemoryTrend) -> Growth | None:
        grown = trend.recent_bytes - trend.baseline_bytes
        if grown <= 0 or trend.baseline_bytes <= 0:
            return None
        later = (trend.recent_bytes - trend.middle_bytes) / grown
        if min(later, 1 - later) < self.policy.creep_sustained_ratio:
            return None
        if trend.largest_rise_bytes > self.policy.creep_jump_ratio * grown:
            return None
        if trend.certainty < self.policy.creep_certainty:
            return None
        pace = grown / (_BETWEEN_BANDS * trend.steps)
        return Growth(rank, grown, grown / trend.baseline_bytes, trend.steps, pace, pace)

    def _score(self, growth: Growth) -> float:
        score = min(growth.ratio / self.policy.creep_ratio, growth.bytes / self.policy.creep_bytes)
        left = self._steps_left(growth)
        if left is not None and self._early_score(growth) >= 1:
            score = max(score, growth.steps / max(left, 1.0))
        return score

    def _early_score(self, growth: Growth) -> float:
        policy = self.policy
        return min(growth.ratio / policy.creep_early_ratio, growth.bytes / policy.creep_early_bytes)

    def _steps_left(self, growth: Growth) -> float | None:
        """Until the limit, if it goes on like that."""
        limit = self.limits.get(growth.rank)
        if limit is None:
            return None
        used = sum(self.peaks.values()) if self._is_shared else self.peaks.get(growth.rank, 0.0)
        return max(limit - used, 0.0) / growth.pace

    def _creeping(
        self, state: str, growing: list[Growth], trends: Mapping[int, MemoryTrend]
    ) -> Finding:
        worst = max(growing, key=lambda growth: growth.bytes)
        others = [t.recent_bytes - t.baseline_bytes for r, t in trends.items() if r != worst.rank]
        alone = bool(others) and lower_median(others) < worst.bytes / 2
        left = self._steps_left(worst)
        is_near = left is not None and left <= worst.steps / 4
        whose = f"Rank {worst.rank}'s {self._floor}" if alone else self._floor.capitalize()
        until = f" At that pace the limit is reached in {left:.0f} steps." if left else ""
        return Finding(
            domain=STEP_MEMORY,
            state=state,
            severity=INFO if state.endswith("EARLY") else CRITICAL if is_near else WARNING,
            summary=f"{whose} grew by {units.bytes_(worst.bytes)} ({units.ratio(worst.ratio)}) "
            f"since the first fifth of {worst.steps} steps, {units.bytes_(worst.bytes_per_step)} "
            f"a step, and keeps growing.{until}",
            action=_LEAK,
            rank=worst.rank if alone else None,
            chronic=True,
            evidence={
                "growth_bytes": worst.bytes,
                "growth_ratio": worst.ratio,
                "bytes_per_step": worst.bytes_per_step,
                **({} if left is None else {"steps_until_limit": left}),
            },
        )

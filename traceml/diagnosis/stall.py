"""A run that stands still, and the rank that all wait for."""

from traceml import units
from traceml.diagnosis.finding import CRITICAL, STEP_TIME, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.verdict import Verdict
from traceml.snapshot import RankState, Snapshot

_WAITING = "collective_wait"


def stalled(snapshot: Snapshot, policy: Policy) -> Verdict:
    """Whether no step was completed for too long, outside of evaluations and the like."""
    silence = snapshot.idle_seconds
    step = snapshot.window.step or snapshot.whole.step
    left = snapshot.run.state == "running" and snapshot.ranks_expected == 0
    over = snapshot.run.state == "completed" or left
    if silence is None or step is None or over or any(rank.tagged for rank in snapshot.ranks):
        return Verdict("STALLED")
    patience = max(policy.stalled_seconds, policy.stalled_steps * step.median)
    score = silence / patience
    if score < 1:
        return Verdict("STALLED", score)
    return Verdict("STALLED", score, _finding(snapshot, silence), share=1.0)


def _finding(snapshot: Snapshot, silence: float) -> Finding:
    rank, phase, why, confidence = _culprit(snapshot)
    action = (
        "Look at the collective itself: ranks that call different ones, a lost network, a peer "
        "on another node."
        if rank is None
        else f"Look at rank {rank}'s process: `py-spy dump` shows where it is, the kernel's log "
        "whether it was killed."
    )
    return Finding(
        domain=STEP_TIME,
        state="STALLED",
        severity=CRITICAL,
        summary=f"No step was completed for {units.seconds(silence)}. {why}",
        action=action,
        rank=rank,
        phase=phase,
        chronic=True,
        confidence=confidence,
        evidence={"silent_seconds": silence},
    )


def _culprit(snapshot: Snapshot) -> tuple[int | None, str | None, str, str]:
    """Who is waited for: a rank that fell silent, else one that does not wait itself."""
    if snapshot.absent:
        # Of several that are silent, not the one that waited for another.
        gone = min(snapshot.absent, key=lambda a: (a.phase == _WAITING, a.step or 0, a.rank))
        if gone.step is None:
            return gone.rank, None, f"Rank {gone.rank} was never heard of.", "high"
        why = (
            f"Rank {gone.rank} has been silent for {units.seconds(gone.silent_seconds)}, since "
            f"{gone.phase or 'the start'} of step {gone.step}."
        )
        return gone.rank, gone.phase or None, why, "high"
    there = [rank for rank in snapshot.ranks if rank.reporting or rank.parted]
    working = [rank for rank in there if rank.phase != _WAITING]
    if not working:
        return None, _WAITING, "All ranks wait for an exchange that does not end.", "medium"
    stuck = min(working, key=lambda rank: (rank.step, rank.rank))
    behind = [rank for rank in working if rank.step == stuck.step]
    confidence = "high" if len(behind) == 1 else "low"
    return stuck.rank, stuck.phase or None, _why(stuck, snapshot), confidence


def _why(stuck: RankState, snapshot: Snapshot) -> str:
    others = len(snapshot.ranks) - 1
    waiting = " while the others wait" if others else ""
    return f"Rank {stuck.rank} is in {stuck.phase or 'its start'} of step {stuck.step}{waiting}."

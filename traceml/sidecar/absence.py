"""Ranks that are not there: who they are, and whom it is vain to wait for."""

from collections.abc import Iterator

from traceml.sidecar.rank import SILENT_SECONDS
from traceml.sidecar.sessions import Sessions
from traceml.snapshot import Absence

NEVER_SECONDS = 60.0  # so long a rank may take to its first word while the others train


def absent(sessions: Sessions, now: float) -> tuple[Absence, ...]:
    """The ranks of this attempt that fell silent without a goodbye, or never spoke."""
    return tuple(_absent(sessions, now))


def _absent(sessions: Sessions, now: float) -> Iterator[Absence]:
    ranks = sessions.current()
    for number in sorted({*sessions.numbers(), *ranks}):
        rank = ranks.get(number)
        if rank is None:
            if now - sessions.began_at >= SILENT_SECONDS:
                yield Absence(number, None, "", now - sessions.began_at)
        elif not rank.parted and not rank.is_reporting(now):
            yield Absence(number, rank.step, rank.phase, now - rank.seen_at)


def overdue(sessions: Sessions, now: float) -> list[int]:
    """The ranks that others went on without.

    In synchronous training nobody can: a rank that is stopped or slow is waited
    for. So it counts only if others told steps well after its last word.
    """
    ranks = sessions.current()
    went_on_at = max((rank.stepped_at for rank in ranks.values()), default=0.0)
    late = []
    for number in sessions.numbers():
        rank = ranks.get(number)
        since = sessions.began_at if rank is None else rank.seen_at
        patience = NEVER_SECONDS if rank is None else SILENT_SECONDS
        if now - since >= patience and went_on_at - since >= patience / 2:
            late.append(number)
    return late

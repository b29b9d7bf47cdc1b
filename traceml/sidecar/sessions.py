"""Who speaks: processes, the ranks they speak for, and the attempt they belong to."""

from collections.abc import Iterator
from typing import Annotated, Any

from google.protobuf.message import Message

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.limits import MAX_KEPT_RANKS
from traceml.sidecar.rank import Rank
from traceml.sidecar.refusal import MalformedError, UnknownSessionError
from traceml.sidecar.shapes import (
    Attempt,
    Count,
    Expected,
    Most,
    RankNumber,
    Text,
    check_attributes,
)
from traceml.wire import telemetry_pb2 as pb

UNSEEN_ATTEMPTS = 10  # that may have ended before their first step
ATTEMPT_SECONDS = 1.0  # each takes longer: torch has to be imported
_MAX_SUPERSEDED = 10_000


@saved
class Superseded:
    """A process that another has replaced: what it still sends is dropped and counted."""

    rank: RankNumber
    acknowledged: Count

    def __init__(self, rank: int, acknowledged: int) -> None:
        self.rank = rank
        self.acknowledged = acknowledged


@saved
class Sessions:
    """Ranks by number and by the session that speaks for them now."""

    ranks: Annotated[dict[RankNumber, Rank], Most(MAX_KEPT_RANKS)]
    attempt: Attempt  # torchelastic's count, and restarts that nobody counts
    began_at: float  # of the attempt
    expected: Expected | None  # ranks on this node
    # Ranks of which a process trains on although its steps count no longer: because another
    # process speaks for the rank, or because the attempt it belongs to is over.
    contested: Annotated[dict[RankNumber, None], Most(MAX_KEPT_RANKS)]
    left_behind: Annotated[dict[RankNumber, None], Most(MAX_KEPT_RANKS)]
    _superseded: Annotated[dict[Text, Superseded], Most(_MAX_SUPERSEDED)]
    # By session: the first step heard of since its steps count no longer.
    _outdated_step: Annotated[dict[Text, Count], Most(_MAX_SUPERSEDED + MAX_KEPT_RANKS)]

    def __init__(self, began_at: float, expected: int | None) -> None:
        self.ranks = {}
        self.attempt = (-1, -1)
        self.began_at = began_at
        self.expected = expected
        self.contested = {}
        self.left_behind = {}
        self._superseded = {}
        self._outdated_step = {}
        self._sessions: dict[str, Rank] = {}

    def save(self) -> dict[str, Any]:
        """All but the second way to find a rank."""
        return {name: value for name, value in vars(self).items() if name != "_sessions"}

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Sessions":
        """What `save` gave."""
        check_attributes(cls, state)
        sessions = cls(0.0, None)
        vars(sessions).update(state)
        sessions._sessions = {r.session: r for r in sessions.ranks.values() if r.session}
        return sessions

    def rank_of(self, session: str) -> Rank | None:
        """The rank behind a session; None for a process that another has replaced."""
        if session in self._superseded:
            return None
        if session not in self._sessions:
            raise UnknownSessionError
        return self._sessions[session]

    def check(self, request: pb.HelloRequest, now: float) -> None:
        """MalformedError for what no process of this run would say of itself."""
        identity = request.identity
        if identity.rank >= max(identity.world_size, 1):
            raise MalformedError(f"rank {identity.rank} of {identity.world_size}")
        attempt, _ = self.attempt
        if attempt < 0 or request.session in self._sessions:
            return
        if identity.rank not in self.ranks and len(self.ranks) >= MAX_KEPT_RANKS:
            raise MalformedError(f"rank {identity.rank}, after {len(self.ranks)} others")
        if identity.attempt < attempt:
            return
        unseen = UNSEEN_ATTEMPTS + max(now - self.began_at, 0.0) / ATTEMPT_SECONDS
        if identity.attempt > attempt + unseen:
            raise MalformedError(f"attempt {identity.attempt}, so soon after attempt {attempt}")
        if identity.attempt == attempt and self._is_full(identity) and self._is_anyone_there(now):
            raise MalformedError(f"rank {identity.rank} besides all that this node has")

    def open(self, session: str, identity: pb.Identity, now: float) -> bool:
        """Let a process speak for its rank; True if a new attempt begins with it.

        One does when torchelastic says so, when a rank that is already there comes in a
        new process, or when one more comes while none of those that there should be is there.
        """
        if session in self._sessions or session in self._superseded:
            return False
        elastic, generation = self.attempt
        if identity.attempt < elastic:
            self._supersede(session, identity.rank, acknowledged=0)
            if identity.rank not in self.ranks:
                self.ranks[identity.rank] = Rank(identity)
            return False
        rank = self.ranks.setdefault(identity.rank, Rank())
        before = self.attempt
        if identity.attempt > elastic:
            self.attempt = (identity.attempt, 0)
        elif rank.attempt == self.attempt or self._is_full(identity):
            # started again, by something that does not count
            self.attempt = (elastic, generation + 1)
        if self.attempt != before:
            self.began_at, self.expected = now, max(identity.local_world_size, 1)
        if rank.session:
            self._supersede(rank.session, identity.rank, rank.acknowledged)
            del self._sessions[rank.session]
        rank.open_session(session, identity, self.attempt, now)
        self._sessions[session] = rank
        return self.attempt != before

    def drop(self, request: pb.PushRequest) -> None:
        """Count what a process sends that another has replaced, each batch once."""
        session, batch = self._superseded[request.session], request.batch
        if batch.sequence > session.acknowledged:
            session.acknowledged = batch.sequence
            self.ranks[session.rank].count_lost("superseded", batch.records)
        if self._trains_on(request):
            self.contested[session.rank] = None

    def look_for_left_behind(self, rank: Rank, request: pb.PushRequest) -> None:
        """Note a process that trains on in an attempt which is over for the other ranks."""
        if rank.attempt != self.attempt and self._trains_on(request):
            self.left_behind[rank.identity.rank] = None

    def _trains_on(self, request: pb.PushRequest) -> bool:
        """Whether its step has moved on since its steps count no longer.

        The last words of a process that has ended may come late, but they tell of one step.
        """
        if not request.HasField("heartbeat"):
            return False
        step = request.heartbeat.step
        return step > self._outdated_step.setdefault(request.session, step)

    def messages(self) -> Iterator[Message]:
        """What the ranks have last told of themselves."""
        for rank in self.ranks.values():
            yield rank.identity
            if rank.heartbeat is not None:
                yield rank.heartbeat

    def current(self) -> dict[int, Rank]:
        """The ranks of this attempt."""
        return {n: rank for n, rank in self.ranks.items() if rank.attempt == self.attempt}

    def numbers(self) -> range:
        """The ranks that this node should have, once one of them has told its own."""
        for rank in self.current().values():
            first = max(rank.identity.rank - rank.identity.local_rank, 0)
            return range(first, first + (self.expected or 1))
        return range(0)

    def have_all_parted(self) -> bool:
        """Whether every rank of this attempt was there and has said goodbye."""
        current = self.current().values()
        complete = bool(current) and len(current) >= (self.expected or 1)
        return complete and all(rank.parted for rank in current)

    def _is_full(self, identity: pb.Identity) -> bool:
        """Whether this would be one rank more than the attempt has on this node."""
        room = max(self.expected or 1, identity.local_world_size)
        if len(self.ranks) < room:
            return False
        current = self.current()
        return identity.rank not in current and len(current) >= room

    def _is_anyone_there(self, now: float) -> bool:
        return any(rank.is_reporting(now) for rank in self.current().values())

    def _supersede(self, session: str, rank: int, acknowledged: int) -> None:
        self._superseded[session] = Superseded(rank, acknowledged)
        if len(self._superseded) > _MAX_SUPERSEDED:
            oldest = next(iter(self._superseded))
            del self._superseded[oldest]
            self._outdated_step.pop(oldest, None)

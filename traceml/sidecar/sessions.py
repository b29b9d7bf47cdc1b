"""Who speaks: processes, the ranks they speak for, and the attempt they belong to."""

from typing import Any

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.rank import Rank
from traceml.sidecar.refusal import MalformedError, UnknownSessionError
from traceml.wire import telemetry_pb2 as pb

MAX_LOCAL_RANKS = 1024  # a node with more does not exist; a request that says so is nonsense
MAX_TEXT = 256
_MAX_SUPERSEDED = 10_000


@saved
class Sessions:
    """Ranks by number and by the session that speaks for them now."""

    def __init__(self, began_at: float, expected: int | None) -> None:
        self.ranks: dict[int, Rank] = {}
        self.attempt = (-1, -1)  # torchelastic's count, and restarts that nobody counts
        self.began_at = began_at  # of the attempt
        self.expected = expected  # ranks on this node
        self._superseded: dict[str, None] = {}
        self._sessions: dict[str, Rank] = {}

    def save(self) -> dict[str, Any]:
        """All but the second way to find a rank."""
        return {name: value for name, value in vars(self).items() if name != "_sessions"}

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Sessions":
        """What `save` gave."""
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

    def open(self, session: str, identity: pb.Identity, now: float) -> bool:
        """Let a process speak for its rank; True if a new attempt begins with it.

        One does when torchelastic says so, or when a rank that is already there
        comes in a new process.
        """
        if session in self._sessions or session in self._superseded:
            return False
        elastic, generation = self.attempt
        if identity.attempt < elastic:
            self._supersede(session)
            return False
        rank = self.ranks.setdefault(identity.rank, Rank())
        before = self.attempt
        if identity.attempt > elastic:
            self.attempt = (identity.attempt, 0)
        elif rank.attempt == self.attempt:  # started again, by something that does not count
            self.attempt = (elastic, generation + 1)
        if self.attempt != before:
            self.began_at, self.expected = now, max(identity.local_world_size, 1)
        if rank.session:
            self._supersede(rank.session)
            del self._sessions[rank.session]
        rank.open_session(session, identity, self.attempt, now)
        self._sessions[session] = rank
        return self.attempt != before

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

    def _supersede(self, session: str) -> None:
        self._superseded[session] = None
        if len(self._superseded) > _MAX_SUPERSEDED:
            del self._superseded[next(iter(self._superseded))]


def check_hello(request: pb.HelloRequest) -> None:
    """MalformedError for what no rank would say of itself."""
    identity = request.identity
    texts = [value for _, value in identity.ListFields() if isinstance(value, str)]
    if not 0 < len(request.session) <= MAX_TEXT or any(len(text) > MAX_TEXT for text in texts):
        raise MalformedError("a text is empty or too long")
    if identity.local_world_size > MAX_LOCAL_RANKS:
        raise MalformedError(f"no node has {identity.local_world_size} ranks")
    if identity.rank >= max(identity.world_size, 1):
        raise MalformedError(f"rank {identity.rank} of {identity.world_size}")

"""The run as it is told by its ranks; the one owner of the sidecar's state."""

import time
from collections import Counter
from collections.abc import Callable

from traceml.diagnosis.finding import DOMAINS, no_data
from traceml.sidecar.align import Aligner
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.rank import Rank
from traceml.sidecar.steps import StepBook
from traceml.snapshot import Host, RankState, Run, Snapshot, Telemetry
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, decode

MAX_NOTES = 20  # a rank that keeps sending nonsense must not fill the memory


NOTHING_SEEN = (
    "No training was seen: no process called a backward pass or stepped an optimizer of torch's. "
    "If one did, inside a compiled function, put trace_step around it."
)


ENDED_EARLY = "The script ended before its first training step was seen."


class ProtocolTooNewError(Exception):
    """A rank speaks a protocol that this sidecar does not know."""


class UnknownSessionError(Exception):
    """A rank speaks without having said hello to this sidecar."""


class Collector:
    """Sessions, ranks, alignment and statistics of one run on one node."""

    def __init__(self, run: RunIdentity, clock: Callable[[], float] = time.time) -> None:
        self._run = run
        self._clock = clock
        self._ranks: dict[int, Rank] = {}
        self._sessions: dict[str, Rank] = {}
        self._superseded: set[str] = set()
        self._attempt = (-1, -1)
        self._aligner: Aligner | None = None
        self._expected = run.ranks_expected
        self._incomplete: Counter[str] = Counter({"missing": 0, "overflow": 0, "restart": 0})
        self._book = StepBook()
        self._state = "running"
        self._exit_code: int | None = None
        self._ended_at: float | None = None
        self._notes: dict[str, None] = {}
        self.failed_requests = 0

    def hello(self, request: pb.HelloRequest) -> pb.HelloReply:
        """Open a session; a second one of the same rank begins a new attempt."""
        identity = request.identity
        if request.protocol > PROTOCOL:
            message = (
                f"rank {identity.rank} (traceml-exporter {identity.traceml}) speaks protocol "
                f"{request.protocol}, this sidecar at most {PROTOCOL}: update the sidecar"
            )
            self._note(message)
            raise ProtocolTooNewError(message)
        if request.session not in self._sessions and request.session not in self._superseded:
            self._open_session(request.session, identity)
        return pb.HelloReply(protocol=PROTOCOL)

    def push(self, request: pb.PushRequest) -> pb.PushReply:
        """Take a heartbeat and perhaps a batch; what was taken before is only acknowledged."""
        rank = self._rank_of(request.session)
        if rank is None:
            return pb.PushReply(acknowledged=request.batch.sequence)
        rank.hear(request, self._clock())
        batch = request.batch
        if batch.sequence > rank.acknowledged:
            self._take(rank, batch)
            rank.acknowledged = batch.sequence
        return pb.PushReply(acknowledged=rank.acknowledged)

    def goodbye(self, request: pb.GoodbyeRequest) -> pb.GoodbyeReply:
        """Close a session."""
        rank = self._rank_of(request.session)
        if rank is not None:
            rank.hear(request, self._clock())
            rank.parted = True
        return pb.GoodbyeReply()

    def is_anyone_reporting(self) -> bool:
        """Whether any rank is still there."""
        now = self._clock()
        return any(rank.is_reporting(now) for rank in self._ranks.values())

    def have_all_parted(self) -> bool:
        """Whether every rank of the current attempt was there and has said goodbye."""
        current = [rank for rank in self._ranks.values() if rank.attempt == self._attempt]
        complete = bool(current) and len(current) >= (self._expected or 1)
        return complete and all(rank.parted for rank in current)

    def end(self, state: str, exit_code: int | None) -> None:
        """The run is over: what is still waiting will not be completed."""
        self._state, self._exit_code, self._ended_at = state, exit_code, self._clock()
        self._retire_aligner("missing")

    def snapshot(self, host: Host | None) -> Snapshot:
        """The run at this moment."""
        now = self._clock()
        incomplete = self._incomplete
        if self._aligner is not None:
            incomplete = incomplete + self._aligner.incomplete
        ranks = tuple(self._ranks[rank].state(now) for rank in sorted(self._ranks))
        return Snapshot(
            run=self._describe(now),
            ranks_expected=0 if self.have_all_parted() else self._expected,
            ranks_reporting=sum(rank.reporting for rank in ranks),
            ranks=ranks,
            steps=self._book.steps({reason: incomplete[reason] for reason in self._incomplete}),
            window=self._book.window(),
            whole=self._book.whole(),
            host=host,
            telemetry=_telemetry(ranks),
            findings=tuple(no_data(domain) for domain in DOMAINS),
            notes=(
                *self._notes,
                *self._absence_notes(),
                *self._rank_notes(),
                *self._fault_notes(),
            ),
        )

    def _rank_of(self, session: str) -> Rank | None:
        """The rank behind a session; None for a process that another has replaced."""
        if session in self._superseded:
            return None
        if session not in self._sessions:
            raise UnknownSessionError("say hello first")
        return self._sessions[session]

    def _open_session(self, session: str, identity: pb.Identity) -> None:
        elastic, generation = self._attempt
        if identity.attempt < elastic:
            self._superseded.add(session)
            return
        rank = self._ranks.setdefault(identity.rank, Rank())
        if identity.attempt > elastic:
            self._begin_attempt((identity.attempt, 0), identity)
        elif rank.attempt == self._attempt:  # started again, by something that does not count
            self._begin_attempt((elastic, generation + 1), identity)
        if rank.session:
            self._superseded.add(rank.session)
            del self._sessions[rank.session]
        rank.open_session(session, identity, self._attempt, self._clock())
        self._sessions[session] = rank

    def _begin_attempt(self, attempt: tuple[int, int], identity: pb.Identity) -> None:
        """Steps start over: what the ranks of the attempt before have not completed is lost."""
        self._retire_aligner("restart")
        self._attempt = attempt
        self._expected = max(identity.local_world_size, 1)
        self._aligner = Aligner(self._expected)

    def _retire_aligner(self, reason: str) -> None:
        if self._aligner is not None:
            self._aligner.give_up(reason)
            self._incomplete.update(self._aligner.incomplete)
            self._aligner = None

    def _take(self, rank: Rank, batch: pb.Batch) -> None:
        try:
            records = decode(batch)
        except ValueError as error:
            self._note(f"rank {rank.identity.rank} sent a batch that is no batch: {error}")
            rank.count_lost("malformed", batch.records)
            return
        rank.count(records)
        aligner = self._aligner
        if aligner is None or rank.attempt != self._attempt:
            rank.count_lost("late", len(records))
            return
        late = aligner.late
        for completed in aligner.add(rank.identity.rank, records):
            self._book.add(completed, self._clock())
        rank.count_lost("late", aligner.late - late)

    def _describe(self, now: float) -> Run:
        ranks = [rank.identity for rank in self._ranks.values()]
        first = ranks[0] if ranks else pb.Identity()
        local = max(first.local_world_size, 1)
        return Run(
            name=self._run.name,
            id=self._run.id,
            state=self._state,
            exit_code=self._exit_code,
            started_at=self._run.started_at,
            duration_seconds=(self._ended_at or now) - self._run.started_at,
            command=self._run.command,
            world_size=first.world_size if ranks else None,
            nnodes=max(1, first.world_size // local) if ranks else None,
            strategy=first.strategy,
            device=first.device,
            torch=first.torch,
            python=first.python,
        )

    def _note(self, message: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[message] = None

    def _absence_notes(self) -> list[str]:
        """Why there is nothing to show, once it is sure that there won't be."""
        if self._ended_at is None or self._ranks:
            return []
        return [NOTHING_SEEN if self._state == "completed" else ENDED_EARLY]

    def _rank_notes(self) -> list[str]:
        """What ranks say they cannot measure; a sentence of all of them stands alone."""
        said: dict[str, list[int]] = {}
        for number, rank in sorted(self._ranks.items()):
            for note in rank.notes:
                said.setdefault(note, []).append(number)
        return [
            note if len(by) == len(self._ranks) else f"rank {', '.join(map(str, by))}: {note}"
            for note, by in said.items()
        ]

    def _fault_notes(self) -> list[str]:
        failed = [
            f"{self.failed_requests} requests failed inside the sidecar; sidecar.log says why"
        ] if self.failed_requests else []  # fmt: skip
        return failed + [
            f"rank {number}: {rank.faults} errors inside TraceML's own hooks were swallowed; "
            "tracing may have stopped early there"
            for number, rank in sorted(self._ranks.items())
            if rank.faults
        ]


def _telemetry(ranks: tuple[RankState, ...]) -> Telemetry:
    received = sum(rank.records_received for rank in ranks)
    overhead = sum(rank.overhead_seconds for rank in ranks)
    return Telemetry(
        overhead_seconds_per_step=overhead / received if received else None,
        records_received=received,
        records_dropped=sum(sum(rank.records_dropped.values()) for rank in ranks),
    )

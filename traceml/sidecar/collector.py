"""The run as it is told by its ranks; the one owner of the sidecar's state.

It changes by `apply` alone, and an entry's time is the only time it knows of: the
same entries in the same order make the same state, today and when they are read
again from the journal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias

from traceml.diagnosis.diagnose import diagnosed
from traceml.diagnosis.policy import Policy
from traceml.files import parse_json
from traceml.sidecar import absence
from traceml.sidecar.align import AlignedSteps, Aligner
from traceml.sidecar.checking import bounded, check
from traceml.sidecar.config import RunIdentity
from traceml.sidecar.hostbook import HostBook
from traceml.sidecar.notes import Notes, nodes_notes, policy_notes, service_notes, session_notes
from traceml.sidecar.rank import Rank
from traceml.sidecar.refusal import REASONS, MalformedError, ProtocolTooNewError
from traceml.sidecar.sessions import Sessions
from traceml.sidecar.shapes import Count, Moment, Within, check_attributes
from traceml.sidecar.statistics import spread
from traceml.sidecar.steady import SteadyClock
from traceml.sidecar.steps import StepBook
from traceml.sidecar.timeline import Timeline
from traceml.snapshot import RankState, Run, Snapshot, Spread, Telemetry
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, decode

Reply: TypeAlias = pb.HelloReply | pb.PushReply | pb.GoodbyeReply | None

_MAX_POLICY_VALUES = 1000


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is saved of a collector beside its run, by the names of its attributes."""

    unjournaled: Count
    _sessions: Sessions
    _aligner: Aligner | None
    _incomplete: Counter[str]
    _book: StepBook
    _state: Literal["running", "completed", "failed", "interrupted"]
    _exit_code: Annotated[int, Within(-(2**31), 2**31)] | None
    _ended_at: Moment | None
    _starts: Count
    _restarts: Count
    _host: HostBook
    _notes: Notes
    _policy: dict[str, float]
    _timeline: Timeline


_SAVED = tuple(each.name for each in fields(_Kept))


class Collector:
    """Sessions, ranks, alignment and statistics of one run on one node."""

    def __init__(self, run: RunIdentity, clock: Callable[[], float] | None = None) -> None:
        self.run = run
        self.clock = clock or SteadyClock()  # gives entries their time, and tells who is silent
        self.refused: Counter[str] = Counter()  # requests, by the reason for it
        self.unjournaled = 0  # records taken while the journal could not be written
        self.journal_problem = ""
        self._sessions = Sessions(run.started_at, run.ranks_expected)
        self._aligner: Aligner | None = None
        self._incomplete: Counter[str] = Counter({"missing": 0, "overflow": 0, "restart": 0})
        self._book = StepBook()
        self._state = "running"
        self._exit_code: int | None = None
        self._ended_at: float | None = None
        self._starts = 0
        self._restarts = 0
        self._host = HostBook()
        self._notes = Notes()
        self._timeline = Timeline()
        self._policy: dict[str, float] = {}  # what differs from the defaults

    def save(self) -> dict[str, Any]:
        """All that `load` needs to go on from here."""
        kept = {name: getattr(self, name) for name in _SAVED}
        return {"run": asdict(self.run), "kept": kept}

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Collector":
        """The collector that was saved; an error if it holds what it never would have taken."""
        check_attributes(_Kept, state["kept"])
        collector = cls(RunIdentity.of(state["run"]))
        vars(collector).update(state["kept"])
        Policy.of(collector._policy)
        for message in (*collector._sessions.messages(), *collector._host.messages()):
            check(message)
        return collector

    def check(self, entry: pb.Entry) -> None:
        """Make an entry fit to be applied, whoever wrote it, or raise why it can't be.

        What was measured beyond its limits is taken out of it.
        """
        check(entry)
        what = entry.WhichOneof("what")
        if what is None:
            raise MalformedError("an entry that says nothing")
        if what == "hello":
            self._sessions.check(entry.hello, entry.at)
        elif what in ("push", "goodbye"):
            self.check_session(getattr(entry, what).session)

    def check_session(self, session: str) -> None:
        """Raise what is to be said to a process that has not said hello."""
        self._sessions.rank_of(session)

    def strip(self, push: pb.PushRequest) -> None:
        """Leave only what is counted of a batch that was taken before, or is not taken at all."""
        rank, batch = self._sessions.rank_of(push.session), push.batch
        if rank is None:
            batch.CopyFrom(pb.Batch(sequence=batch.sequence, records=batch.records))
        elif batch.sequence <= rank.acknowledged:
            batch.CopyFrom(pb.Batch(sequence=batch.sequence))

    def apply(self, entry: pb.Entry) -> Reply:
        """Take what was told; a refusal is raised, and changes nothing but the notes."""
        what = entry.WhichOneof("what")
        if what == "push":
            return self._push(entry.push, entry.at)
        if what == "hello":
            return self._hello(entry.hello, entry.at)
        if what == "goodbye":
            return self._goodbye(entry.goodbye, entry.at)
        if what == "started":
            self._start(entry.started, entry.at)
        elif what == "ended":
            self._end(entry.ended, entry.at)
        elif what == "excused":
            self._excuse(entry.excused.rank, entry.at)
        elif what == "sampled":
            self._host.add(entry.sampled)
        elif what == "diagnosed":
            self._timeline.add(entry.diagnosed, entry.at)
        return None

    def note(self, sentence: str) -> None:
        """Let the summary say it."""
        self._notes.add(sentence)

    def is_anyone_reporting(self) -> bool:
        """Whether any rank is still there."""
        now = self.clock()
        return any(rank.is_reporting(now) for rank in self._sessions.ranks.values())

    @property
    def ranks(self) -> Mapping[int, Rank]:
        """All that have ever spoken."""
        return self._sessions.ranks

    @property
    def was_anyone_there(self) -> bool:
        """Whether any rank has ever spoken."""
        return bool(self._sessions.ranks)

    def have_all_parted(self) -> bool:
        """Whether every rank was there and has said goodbye."""
        return self._sessions.have_all_parted()

    @property
    def has_ended(self) -> bool:
        """Whether the run is known to be over."""
        return self._ended_at is not None

    @property
    def is_unfinished(self) -> bool:
        """Whether the run went on when its sidecar was last heard of: killed, or told to stop."""
        if self._ended_at is None:
            return True
        alive = any(rank.is_reporting(self._ended_at) for rank in self._sessions.current().values())
        return self._state == "interrupted" and self._exit_code is None and alive

    def overdue(self) -> list[int]:
        """Ranks that are waited for in vain while the others go on."""
        if self._aligner is None:
            return []
        late = absence.overdue(self._sessions, self.clock())
        return [rank for rank in late if not self._aligner.is_excused(rank)]

    def forgive(self, seconds: float) -> None:
        """The sidecar itself was away so long: nobody is silent for that."""
        self._sessions.began_at += seconds
        for rank in self._sessions.ranks.values():
            rank.seen_at += seconds

    def snapshot(self, *, with_course: bool = True) -> Snapshot:
        """The run at this moment, or at its end; its course, part by part, only summaries need."""
        now = self._ended_at or self.clock()
        sessions, book, host = self._sessions, self._book, self._host
        run, whole, (window, recent) = self._describe(now), book.whole(), book.lately()
        lost = {number: times.lost_seconds for number, times in whole.ranks.items()}
        ranks = tuple(
            rank.state(now, rank.attempt == sessions.attempt, lost.get(number, {}))
            for number, rank in sorted(sessions.ranks.items())
        )
        picture = Snapshot(
            run=run,
            ranks_expected=0 if sessions.have_all_parted() else sessions.expected,
            ranks_reporting=sum(rank.reporting for rank in ranks),
            ranks=ranks,
            absent=absence.absent(sessions, now),
            steps=book.steps(self._given_up(), with_course),
            window=window,
            recent=recent,
            whole=whole,
            outliers=book.outliers(),
            memory_trends=book.memory_trends(),
            host=host.host(),
            host_window=host.window(),
            host_whole=host.whole(),
            telemetry=self._telemetry(ranks),
            processes=_processes(ranks),
            turns=self._timeline.turns(),
            notes=(
                *self._notes.of_ranks(sessions.ranks, self._state),
                *session_notes(sessions),
                *policy_notes(self._policy),
                *nodes_notes(run.nnodes, whole),
                *service_notes(self.refused, self.unjournaled, self.journal_problem),
            ),
        )
        return diagnosed(picture, Policy.of(self._policy))

    def _hello(self, request: pb.HelloRequest, now: float) -> pb.HelloReply:
        """Open a session; a second one of the same rank begins a new attempt."""
        identity = request.identity
        if request.protocol > PROTOCOL:
            message = (
                f"rank {identity.rank} (traceml-exporter {identity.traceml}) speaks protocol "
                f"{request.protocol}, this sidecar at most {PROTOCOL}: update the sidecar"
            )
            self._notes.add(message)
            raise ProtocolTooNewError(message)
        self._sessions.check(request, now)  # others may have come since it was checked first
        if self._sessions.open(request.session, identity, now):
            self._begin_attempt()
        return pb.HelloReply(protocol=PROTOCOL)

    def _push(self, request: pb.PushRequest, now: float) -> pb.PushReply:
        """Take a heartbeat and perhaps a batch; what was taken before is only acknowledged."""
        rank = self._sessions.rank_of(request.session)
        if rank is None:
            self._sessions.drop(request)
            return pb.PushReply(acknowledged=request.batch.sequence)
        rank.hear(request, now)
        self._sessions.look_for_left_behind(rank, request)
        batch = request.batch
        if batch.sequence > rank.acknowledged:
            self._take(rank, batch, now)
            rank.acknowledge(batch, now)
        return pb.PushReply(acknowledged=rank.acknowledged)

    def _goodbye(self, request: pb.GoodbyeRequest, now: float) -> pb.GoodbyeReply:
        """Close a session."""
        rank = self._sessions.rank_of(request.session)
        if rank is not None:
            rank.part(request, now)
        return pb.GoodbyeReply()

    def _start(self, started: pb.Started, now: float) -> None:
        """The sidecar serves, or serves again: give every rank the time to come back."""
        self._state, self._exit_code, self._ended_at = "running", None, None
        self._starts += 1
        self._restarts = max(self._restarts, self._starts - 1, started.restarts)
        self._policy = self._thresholds(started.policy) if started.policy else {}
        self._sessions.began_at = now
        for rank in self._sessions.ranks.values():
            if not rank.parted:
                rank.seen_at = now

    def _thresholds(self, text: str) -> dict[str, float]:
        """What differs from the defaults, as told; the journal may be damaged."""
        try:
            given: dict[str, float] = parse_json(text.encode(), _MAX_POLICY_VALUES)
            Policy.of(given)
        except (ValueError, TypeError, AttributeError, OverflowError):
            self._notes.add("The thresholds of this run cannot be read: the defaults are used")
            return {}
        return given

    def _end(self, ended: pb.Ended, now: float) -> None:
        """The run is over; what a rank has left may still be taken."""
        self._state, self._ended_at = ended.state, now
        self._exit_code = ended.exit_code if ended.HasField("exit_code") else None
        for rank in self._sessions.ranks.values():
            rank.settle()

    def _excuse(self, number: int, now: float) -> None:
        if self._aligner is None:
            return
        rank = self._sessions.current().get(number)
        if rank is None or not rank.parted:
            since = "never heard of" if rank is None else f"silent since step {rank.step}"
            self._notes.add(f"The others went on without rank {number}, {since}")
        self._complete(self._aligner.excuse(number), now)

    def _begin_attempt(self) -> None:
        """Steps start over: what the ranks of the attempt before have not completed is lost."""
        self._retire_aligner("restart")
        self._aligner = Aligner(self._sessions.expected or 1)

    def _given_up(self) -> dict[str, int]:
        """Steps that are incomplete for good; once the run is over, those that still wait."""
        total = Counter(self._incomplete)
        if self._aligner is not None:
            total.update(self._aligner.incomplete)
            if self.has_ended:
                total["missing"] += self._aligner.waiting
        return {reason: total[reason] for reason in self._incomplete}

    def _retire_aligner(self, reason: str) -> None:
        if self._aligner is not None:
            self._aligner.give_up(reason)
            self._incomplete.update(self._aligner.incomplete)
            self._aligner = None

    def _take(self, rank: Rank, batch: pb.Batch, now: float) -> None:
        try:
            records = bounded(decode(batch))
            if len(records) and records.step[-1] > rank.last_step_of(batch):
                raise ValueError(f"it tells of step {records.step[-1]}")
        except ValueError as error:
            self._notes.add(f"rank {rank.identity.rank} sent a batch that is no batch: {error}")
            rank.count_lost("malformed", batch.records)
            return
        rank.count(records)
        aligner = self._aligner
        if aligner is None or rank.attempt != self._sessions.attempt:
            rank.count_lost("late", len(records))
            return
        late = aligner.late
        self._complete(aligner.add(rank.identity.rank, records), now)
        rank.count_lost("late", aligner.late - late)

    def _complete(self, parts: Sequence[AlignedSteps], now: float) -> None:
        if not parts:
            return
        groups = {n: rank.identity.fingerprint for n, rank in self._sessions.ranks.items()}
        for steps in parts:
            self._book.add(steps, groups, now)

    def _telemetry(self, ranks: tuple[RankState, ...]) -> Telemetry:
        received = sum(rank.records_received for rank in ranks)
        overhead = sum(rank.overhead_seconds for rank in ranks)
        return Telemetry(
            overhead_seconds_per_step=overhead / received if received else None,
            records_received=received,
            records_dropped=sum((Counter(rank.records_dropped) for rank in ranks), Counter()),
            records_unjournaled=self.unjournaled,
            requests_refused={reason: self.refused[reason] for reason in REASONS},
            sidecar_restarts=self._restarts,
        )

    def _describe(self, now: float) -> Run:
        sessions = self._sessions
        ranks = [rank.identity for rank in sessions.current().values()]
        first = ranks[0] if ranks else pb.Identity()
        local = max(first.local_world_size, 1)
        return Run(
            name=self.run.name,
            id=self.run.id,
            state=self._state,
            exit_code=self._exit_code,
            started_at=self.run.started_at,
            duration_seconds=now - self.run.started_at,
            command=self.run.command,
            world_size=first.world_size if ranks else None,
            nnodes=max(1, first.world_size // local) if ranks else None,
            strategy=first.strategy,
            device=first.device,
            torch=first.torch,
            python=first.python,
        )


def _processes(ranks: Iterable[RankState]) -> dict[str, Spread]:
    """What the ranks' processes use at this moment."""
    figures = {
        name: spread({r.rank: value for r in ranks if (value := getattr(r, name)) is not None})
        for name in ("cpu_cores", "resident_bytes")
    }
    return {name: over for name, over in figures.items() if over is not None}

"""The thread that makes records of the training's entries and carries them to the sidecar.

One unary call at a time, started and settled without blocking, so that entries
are read even while the sidecar is slow, stopped or gone.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any
from uuid import uuid4

from google.protobuf.message import DecodeError, Message

from traceml.rank import process
from traceml.rank.channel import Channel
from traceml.rank.clocks import Clocks, Step
from traceml.rank.events import Recorder
from traceml.rank.http2 import FAILED_PRECONDITION, INTERNAL, NOT_FOUND, OK, THREAD_NAME, Outcome
from traceml.rank.slots import PHASE_NAMES, to_records
from traceml.rank.turns import next_turn, report_seconds
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, encode
from traceml.wire.left import leave, was_served
from traceml.wire.service import path_of, reply_of

TICK_SECONDS = 0.25  # between two looks at what the training has written down
HEARTBEAT_SECONDS = 1.0
CALL_SECONDS = 5.0
WAKE_SECONDS = 0.05  # until a sender that waits for an answer sees that the process ends
BACKOFF_SECONDS = (0.1, 2.0)
BATCH_RECORDS = 2_048
BACKLOG_RECORDS = 200_000  # 12 MB on the wire: what is kept while nobody answers
STANDSTILL_SECONDS = 2.0  # without an entry: then the device is asked where it is
FAREWELL_SECONDS = 2.0
FAREWELL_UNANSWERED_SECONDS = 0.5


class _Question:
    """What a script wants to know of the run; it waits for `answered`."""

    def __init__(self, flat: bool) -> None:
        self.flat = flat
        self.is_due = False  # all that happened before it was asked is read
        self.answer: bytes | None = None
        self.answered = threading.Event()


class Sender(threading.Thread):
    """Sends, keeps what is not acknowledged, sends again; never raises, never prints."""

    def __init__(
        self,
        recorder: Recorder,
        channel: Channel,
        identity: pb.Identity,
        endpoint: str = "",
    ) -> None:
        super().__init__(name=THREAD_NAME, daemon=True)
        self._endpoint = endpoint  # for what can't be delivered there
        self._recorder = recorder
        self._clocks = Clocks(recorder, recorder.device)
        self._resident_bytes: int | None = None
        self._channel = channel
        self._identity = identity
        ranks = max(identity.local_world_size, 1)
        self._turn, self._period = identity.local_rank / ranks, report_seconds(ranks)
        self._session = uuid4().hex
        self._backlog: deque[pb.Batch] = deque()
        self._backlog_records = 0
        self._dropped_backlog = 0
        self._sequence = 0
        self._made = 0  # records so far
        self._greeted = False
        self._was_greeted = False  # by some sidecar, once
        self._parted = False
        self._settled = False  # the last step is known, and on its way
        self._failures = 0
        self._retry_at = 0.0
        self._heartbeat_at = 0.0
        self._collect_at = 0.0
        self._went_on_at = monotonic()  # when there was last an entry
        self._report_at = 0.0
        self._unreported: list[Step] = []
        self._deadline: float | None = None
        self._method: str | None = None  # of the call in flight
        self._settle: Callable[[Any], None] = self._on_hello
        self._question: _Question | None = None
        self._passed_on: _Question | None = None  # the one that was last put to the sidecar
        self._asking = threading.Lock()  # one question at a time
        self._is_mute = False  # nobody has answered anything since a question was asked in vain
        self._wake = threading.Event()
        self._gate = threading.Lock()  # held over a fork: nothing may be half done then

    def run(self) -> None:
        """Work until parted from the sidecar or, once closing, until the deadline."""
        try:
            self._work()
        except Exception:  # a thread's last words would go to the user's terminal
            self._recorder.faults += 1
            self._recorder.silence()
        finally:
            with self._gate:
                self._channel.close()

    def _work(self) -> None:
        while not self._parted:
            if self._deadline is not None or monotonic() >= self._collect_at:
                self._collect()
            self._look_for_question()
            with self._gate:
                self._advance()
            if self._settled and self._deadline is not None and monotonic() > self._deadline:
                break
            self._rest()
        if not self._parted and (self._was_greeted or was_served(self._endpoint)):
            self._leave_behind()

    def _leave_behind(self) -> None:
        """Nobody answers: leave what is left for the next sidecar, or for the summary."""
        hello = pb.Entry(hello=self._hello())
        goodbye = pb.Entry(goodbye=self._goodbye())
        pushes = (pb.Entry(push=self._push_of(batch)) for batch in self._backlog)
        with suppress(OSError):
            leave(self._endpoint, self._session, (hello, *pushes, goodbye))

    def _rest(self) -> None:
        """Sleep until the next tick, or until a call gets on."""
        closing = self._deadline is not None
        seconds = 0.01 if closing else max(self._collect_at - monotonic(), 0.001)
        if self._method is None:
            self._wake.wait(seconds)
        else:
            self._channel.wait(min(seconds, WAKE_SECONDS))
        self._wake.clear()

    def close(self) -> None:
        """Send what is left and say goodbye, within a moment; called as the process ends."""
        answered = self._greeted and self._failures == 0
        self._deadline = monotonic() + (
            FAREWELL_SECONDS if answered else FAREWELL_UNANSWERED_SECONDS
        )
        self._retry_at = 0.0
        self._wake.set()
        self.join(FAREWELL_SECONDS + 1)

    def ask(self, flat: bool, seconds: float) -> bytes | None:
        """What the sidecar says of the run by now; None if there is no answer in that time.

        A sidecar that is gone or stopped keeps the training waiting once, not at each call.
        """
        if not self.is_alive():  # in a forked process, and after the end
            return None
        question = _Question(flat)
        with self._asking:
            if self._is_mute:
                return None
            self._question = question
            self._wake.set()
            self._is_mute = not question.answered.wait(seconds)
            self._question = None
        return question.answer

    def hold(self) -> None:
        """Before a fork: let nothing be sent or received meanwhile."""
        self._gate.acquire()

    def release(self) -> None:
        """After a fork, in the parent, which goes on with the call in flight."""
        self._gate.release()

    def disown(self) -> None:
        """After a fork, in the child: the connection is the parent's."""
        self._channel.close()

    def _collect(self) -> None:
        now = monotonic()
        is_closing = self._deadline is not None  # before entries are taken: then they are all
        self._resident_bytes = process.resident_bytes()
        entries, lost = self._recorder.take()
        if entries:
            self._went_on_at = now
        self._unreported += self._clocks.feed(entries, lost)
        if is_closing and not self._settled:
            self._settled = True
            self._unreported += self._clocks.finish()
        is_asked = is_closing or self._question is not None
        if is_asked or now >= self._report_at or len(self._unreported) >= BATCH_RECORDS:
            self._report_at = next_turn(now, self._turn, self._period)
            steps, self._unreported = self._unreported, []
            self._keep(steps)
        self._collect_at = min(now + TICK_SECONDS, self._report_at)

    def _look_for_question(self) -> None:
        """Before it is passed on, read all that the training has done before it was asked."""
        question = self._question
        if question is not None and not question.is_due:
            self._collect()
            question.is_due = True

    def _keep(self, steps: list[Step]) -> None:
        for first in range(0, len(steps), BATCH_RECORDS):
            rows, timed = zip(*steps[first : first + BATCH_RECORDS], strict=True)
            records = to_records(rows, self._recorder.price_ns, self._resident_bytes, timed)
            self._sequence += 1
            self._backlog.append(encode(records, self._sequence, self._made))
            self._made += len(records)
            self._backlog_records += len(records)
        while self._backlog_records > BACKLOG_RECORDS:
            self._dropped_backlog += self._forget_oldest()

    def _forget_oldest(self) -> int:
        records = self._backlog.popleft().records
        self._backlog_records -= records
        return records

    def _advance(self) -> None:
        if self._method is not None:
            outcome = self._channel.advance()
            if outcome is None:
                return
            method, self._method = self._method, None
            self._settle_call(method, outcome)
        if monotonic() >= self._retry_at and not self._parted:
            self._start_call()

    def _start_call(self) -> None:
        if not self._greeted:
            self._start("Hello", self._hello(), self._on_hello)
        elif self._backlog:
            self._push(self._backlog[0])
        elif (question := self._question) is not None and question.is_due:
            self._passed_on = question
            request = pb.ReportRequest(session=self._session, flat=question.flat)
            self._start("Report", request, self._on_report)
        elif self._settled:
            self._start("Goodbye", self._goodbye(), self._on_goodbye)
        elif monotonic() >= self._heartbeat_at:
            self._push(None)

    def _hello(self) -> pb.HelloRequest:
        return pb.HelloRequest(protocol=PROTOCOL, session=self._session, identity=self._identity)

    def _goodbye(self) -> pb.GoodbyeRequest:
        return pb.GoodbyeRequest(session=self._session, heartbeat=self._heartbeat())

    def _push_of(self, batch: pb.Batch | None) -> pb.PushRequest:
        return pb.PushRequest(session=self._session, heartbeat=self._heartbeat(), batch=batch)

    def _push(self, batch: pb.Batch | None) -> None:
        self._start("Push", self._push_of(batch), self._on_push)

    def _start(self, method: str, request: Message, settle: Callable[[Any], None]) -> None:
        self._method, self._settle = method, settle
        self._channel.start(path_of(method), request.SerializeToString(), CALL_SECONDS)

    def _settle_call(self, method: str, outcome: Outcome) -> None:
        status, reply = _read(method, outcome)
        if status == OK:
            self._failures = 0
            self._is_mute = False
            self._settle(reply)
        elif method == "Report" and status != NOT_FOUND:
            self._on_report(None)  # whoever asked need not wait
        elif status == NOT_FOUND:  # a sidecar that does not know us: a new one
            self._greeted = False
        elif status == FAILED_PRECONDITION:  # it cannot understand us, ever
            self._recorder.silence()
            self._parted = True
        else:
            first, longest = BACKOFF_SECONDS
            self._retry_at = monotonic() + min(first * 2**self._failures, longest)
            self._failures += 1

    def _on_hello(self, _: pb.HelloReply) -> None:
        self._greeted = self._was_greeted = True
        self._heartbeat_at = 0.0

    def _on_push(self, reply: pb.PushReply) -> None:
        self._heartbeat_at = monotonic() + HEARTBEAT_SECONDS
        while self._backlog and self._backlog[0].sequence <= reply.acknowledged:
            self._forget_oldest()

    def _on_report(self, reply: pb.ReportReply | None) -> None:
        question = self._passed_on
        if question is None:
            return
        if self._question is question:
            self._question = None
        question.answer = reply.json if reply is not None else None
        question.answered.set()

    def _on_goodbye(self, _: pb.GoodbyeReply) -> None:
        self._parted = True

    def _heartbeat(self) -> pb.Heartbeat:
        replay = self._clocks.replay
        return pb.Heartbeat(
            step=replay.steps,
            phase=PHASE_NAMES[replay.phases.current],
            since_ns=replay.phases.since,
            cpu_seconds=process.cpu_seconds(),
            resident_bytes=self._resident_bytes or 0,
            dropped_ring=replay.dropped,
            dropped_backlog=self._dropped_backlog,
            faults=self._recorder.faults,
            notes=list(self._recorder.notes),
            tags=replay.tags,
            allocation_retries=replay.memory.retries_so_far,
            device_phase=self._device_phase(),
        )

    def _device_phase(self) -> str:
        if monotonic() - self._went_on_at < STANDSTILL_SECONDS:
            return ""
        return self._clocks.device_phase


def _read(method: str, outcome: Outcome) -> tuple[int, Any]:
    """The status, and the reply if that is OK."""
    if outcome.status != OK:
        return outcome.status, None
    try:
        return OK, reply_of(method, outcome.reply)
    except DecodeError:
        return INTERNAL, None

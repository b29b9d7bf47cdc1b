"""One rank as the sidecar knows it: its identity, last words and running totals."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from traceml.sidecar.checkpoint import saved
from traceml.sidecar.contest import Flags
from traceml.sidecar.shapes import Attempt, Count, Most, Shape, Text
from traceml.sidecar.whereabouts import Whereabouts
from traceml.snapshot import RankState
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import DURATIONS, PHASES, VALUES, Matrix, Records

SILENT_SECONDS = 10.0  # ten heartbeats missed: not reporting
CPU_SECONDS = 30.0  # over which the use of the CPU is told
_CPU_MARK_SECONDS = 5.0
MAX_UNTOLD_STEPS = 10**6  # by which a step's number may be above what its process counts

# Overwritten in the rank before they were read; given up by it while nobody answered; too late
# for their step; no sound records; acknowledged by a sidecar that died before it wrote them; of
# a process that another has replaced.
LOST = ("overwritten", "backlog", "late", "malformed", "unjournaled", "superseded")

# What is added up: the phases, then these two.
_COUNTED = [VALUES.index(name) for name in (*DURATIONS[1:], "overhead_ns", "samples")]


@saved
class Rank:
    """Totals go on when the rank comes back in a new session; its identity is the latest."""

    identity: pb.Identity
    session: Text
    attempt: Attempt
    acknowledged: Count
    parted: bool
    seen_at: float
    stepped_at: float  # when it last told a step
    _session_records: Count
    _heartbeat: pb.Heartbeat | None
    _where: Whereabouts
    _steps: Count
    _phase_ns: Annotated[Matrix, Shape(len(PHASES))]
    _phase_seen: Annotated[Flags, Shape(len(PHASES))]
    _samples: float | None
    _overhead_ns: float
    _cpu_seconds_before: float
    _cpu_marks: Annotated[list[tuple[float, float]], Most(100)]  # when, and CPU seconds so far
    _lost: dict[str, Count]
    _lost_before: dict[str, Count]

    def __init__(self, identity: pb.Identity | None = None) -> None:
        self.identity = identity or pb.Identity()
        self.session = ""
        self.attempt = (-1, -1)
        self.acknowledged = 0
        self.parted = False
        self.seen_at = 0.0
        self.stepped_at = 0.0
        self._session_records = 0
        self._heartbeat = None
        self._where = Whereabouts()
        self._steps = 0
        self._phase_ns = np.zeros(len(PHASES))
        self._phase_seen = np.zeros(len(PHASES), dtype=bool)
        self._samples = None
        self._overhead_ns = 0.0
        self._cpu_seconds_before = 0.0
        self._cpu_marks = []
        self._lost = dict.fromkeys(LOST, 0)
        self._lost_before = {"overwritten": 0, "backlog": 0}

    def is_sound(self) -> bool:
        """Whether all that is counted has its place."""
        return set(self._lost) == set(LOST) and set(self._lost_before) == {*LOST[:2]}

    def open_session(
        self, session: str, identity: pb.Identity, attempt: tuple[int, int], now: float
    ) -> None:
        """Begin again: a new process speaks for this rank."""
        if self._heartbeat is not None:
            self._cpu_seconds_before += self._heartbeat.cpu_seconds
            self._lost_before = {name: self._lost[name] for name in self._lost_before}
        self.session, self.identity, self.attempt = session, identity, attempt
        self.seen_at = now
        self.acknowledged = 0
        self.parted = False
        self._session_records = 0
        self._heartbeat = None
        self._where = Whereabouts()
        self._cpu_marks = []

    def hear(self, request: pb.PushRequest | pb.GoodbyeRequest, now: float) -> None:
        """Take a sign of life, and the heartbeat if there is one in it."""
        self.seen_at = now
        if not request.HasField("heartbeat"):
            return
        last, self._heartbeat = self._heartbeat, request.heartbeat
        heartbeat = request.heartbeat
        # A thread that waits for its device is nowhere in particular: the device is. It is asked
        # only after a while, in which the thread's own phase was told.
        phase = heartbeat.device_phase or heartbeat.phase
        if heartbeat.device_phase and last is not None and not last.device_phase:
            self._where.correct(heartbeat.step, phase)
        self._where.hear(heartbeat.step, phase, now)
        if heartbeat.HasField("cpu_seconds"):
            self._mark_cpu(now, heartbeat.cpu_seconds)
        elif last is not None and last.HasField("cpu_seconds"):
            heartbeat.cpu_seconds = last.cpu_seconds
        before = self._lost_before
        self._lost["overwritten"] = before["overwritten"] + heartbeat.dropped_ring
        self._lost["backlog"] = before["backlog"] + heartbeat.dropped_backlog

    def _mark_cpu(self, now: float, seconds: float) -> None:
        """Keep the newest mark, and older ones some seconds apart: they are part of checkpoints."""
        marks = [mark for mark in self._cpu_marks if now - mark[0] <= CPU_SECONDS]
        if len(marks) > 1 and marks[-1][0] - marks[-2][0] < _CPU_MARK_SECONDS:
            marks.pop()
        self._cpu_marks = [*marks, (now, seconds)]

    def part(self, request: pb.GoodbyeRequest, now: float) -> None:
        """Take its last words."""
        self.hear(request, now)
        self.parted = True
        self.settle()

    def settle(self) -> None:
        """It has ended, or the run has: from now on tell what it was busy with before."""
        self._where.settle(self.seen_at)

    def acknowledge(self, batch: pb.Batch, now: float) -> None:
        """Take note of a batch, and of records before it that never came here."""
        given_up = self._heartbeat.dropped_backlog if self._heartbeat is not None else 0
        missing = batch.preceding - given_up - self._session_records
        if missing > 0:
            self._lost["unjournaled"] += missing
            self._session_records += missing
        self._session_records += batch.records
        self.acknowledged = batch.sequence
        self.stepped_at = now

    def last_step_of(self, batch: pb.Batch) -> int:
        """The highest number that a step in this batch can have: a process counts from 0."""
        overwritten = self._heartbeat.dropped_ring if self._heartbeat is not None else 0
        return batch.preceding + batch.records + overwritten + MAX_UNTOLD_STEPS

    def count(self, records: Records) -> None:
        """Add records to the running totals."""
        values = records.values[:, _COUNTED]
        told = ~np.isnan(values)
        totals = np.where(told, values, 0.0).sum(axis=0)
        seen = np.logical_or.reduce(told)
        self._steps += len(records)
        self._phase_ns += totals[:-2]
        self._phase_seen |= seen[:-2]
        self._overhead_ns += float(totals[-2])
        if seen[-1]:
            self._samples = (self._samples or 0.0) + float(totals[-1])

    def lost(self, reason: str) -> int:
        """Records of this rank that could not be used for that reason."""
        return self._lost[reason]

    def count_lost(self, reason: str, records: int) -> None:
        """Note records that arrived and could not be used."""
        self._lost[reason] += records

    def is_reporting(self, now: float) -> bool:
        """Whether it is there: heard of lately, and has not said goodbye."""
        return not self.parted and now - self.seen_at < SILENT_SECONDS

    @property
    def heartbeat(self) -> pb.Heartbeat | None:
        """The last that came."""
        return self._heartbeat

    @property
    def faults(self) -> int:
        """Errors of ours that this rank swallowed."""
        return self._heartbeat.faults if self._heartbeat is not None else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what this rank cannot measure."""
        return tuple(self._heartbeat.notes) if self._heartbeat is not None else ()

    @property
    def step(self) -> int:
        """The step under way, when it was last heard of."""
        return self._where.step

    @property
    def phase(self) -> str:
        """The phase it was in then; once it has ended, the one it was in for longest."""
        return self._where.phase

    @property
    def cpu_seconds(self) -> float | None:
        """What its processes have used so far."""
        if self._heartbeat is None or not self._heartbeat.HasField("cpu_seconds"):
            return None
        return self._cpu_seconds_before + self._heartbeat.cpu_seconds

    @property
    def cpu_cores(self) -> float | None:
        """How many cores its process has used lately."""
        if len(self._cpu_marks) < 2:
            return None
        (since, before), (until, after) = self._cpu_marks[0], self._cpu_marks[-1]
        is_known = until - since >= 1.0 and after >= before
        return (after - before) / (until - since) if is_known else None

    def state(self, now: float, is_current: bool, lost_seconds: Mapping[str, float]) -> RankState:
        """The rank for the Snapshot; one that a new attempt left out is not there."""
        identity, heartbeat = self.identity, self._heartbeat
        return RankState(
            rank=identity.rank,
            local_rank=identity.local_rank,
            node_rank=identity.node_rank,
            host=identity.host,
            device=identity.device,
            gpu_uuid=identity.gpu_uuid,
            group=identity.fingerprint,
            reporting=is_current and self.is_reporting(now),
            present=is_current and (self.parted or self.is_reporting(now)),
            parted=self.parted,
            step=self.step,
            phase=self.phase,
            tagged=bool(heartbeat and heartbeat.tags),
            steps=self._steps,
            phase_seconds={
                phase: seconds
                for phase, seconds, seen in zip(
                    PHASES, (self._phase_ns / 1e9).tolist(), self._phase_seen, strict=True
                )
                if seen
            },
            samples=self._samples,
            overhead_seconds=self._overhead_ns / 1e9,
            cpu_seconds=self.cpu_seconds,
            cpu_cores=self.cpu_cores,
            resident_bytes=(heartbeat.resident_bytes or None) if heartbeat else None,
            memory_limit_bytes=identity.memory_limit_bytes or None,
            allocation_retries=heartbeat.allocation_retries if heartbeat else 0,
            lost_seconds=lost_seconds,
            records_received=self._steps,
            records_dropped=dict(self._lost),
        )

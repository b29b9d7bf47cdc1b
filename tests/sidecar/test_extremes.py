"""Every field of every message, with every extreme: an honest rank must not notice."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import (
    STARTED_AT,
    Clock,
    gpu_sample,
    hello_request,
    host_sample,
    make_collector,
    make_identity,
    on_device,
    timed_records,
)
from tests.sidecar.extremes import altered, message_of, read_messages
from tests.sidecar.oracles import assert_readable, assert_sound
from traceml.report.document import Rank
from traceml.report.summary import summarized
from traceml.sidecar.collector import Collector
from traceml.sidecar.refusal import RefusedError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES, encode

STEPS = 30  # before what is odd, and again after it
ODD_STEPS = 3  # in a batch that is odd


@dataclass
class Scene:
    """Two ranks of one node, of which the second may send anything."""

    clock: Clock = field(default_factory=Clock)
    told: int = 0
    sequence: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.collector: Collector = make_collector(self.clock)
        self.tell(pb.Entry(started=pb.Started(restarts=1, policy='{"sure_steps": 10}')))
        self.tell(pb.Entry(hello=hello_request("honest", make_identity(0, 2))))

    def tell(self, entry: pb.Entry, at: float | None = None) -> None:
        """What a ledger does with an entry: the time is its own, but for a journal's."""
        entry.at = self.clock() if at is None else at
        try:
            self.collector.check(entry)
            if entry.WhichOneof("what") == "push":
                self.collector.strip(entry.push)
            self.collector.apply(entry)
        except RefusedError as refusal:
            self.refused += 1
            self.reasons.append(str(refusal))

    def train(self, steps: int = STEPS) -> None:
        """Both ranks report their next steps, and the machine is looked at."""
        for session in ("honest", "odd"):
            self.tell(self.push(session, steps))
        self.told += steps
        self.tell(sampled())
        self.clock.advance(2.0)

    def push(self, session: str, steps: int = ODD_STEPS) -> pb.Entry:
        """What a rank sends of its next steps."""
        self.sequence += 1
        return pb.Entry(
            push=pb.PushRequest(
                session=session,
                heartbeat=heartbeat(self.clock),
                batch=encode(
                    on_device(timed_records(range(self.told, self.told + steps))), self.sequence
                ),
            )
        )

    def sound(self) -> Iterator[pb.Entry]:
        """An entry of each kind as it should be, of the second rank or of the sidecar itself."""
        yield pb.Entry(hello=hello_request("odd", make_identity(1, 2)))
        self.tell(pb.Entry(hello=hello_request("odd", make_identity(1, 2))))
        self.train()
        yield sampled()
        diagnosed = pb.Diagnosed(state="JITTER", severity="warning", rank=1, phase="forward")
        yield pb.Entry(diagnosed=diagnosed)
        yield self.push("odd")
        yield pb.Entry(goodbye=pb.GoodbyeRequest(session="odd", heartbeat=heartbeat(self.clock)))
        yield pb.Entry(started=pb.Started(restarts=1, policy='{"sure_steps": 10}'))
        yield pb.Entry(ended=pb.Ended(state="failed", exit_code=1))
        yield pb.Entry(excused=pb.Excused(rank=1))

    def finish(self) -> None:
        """The honest rank goes on to the end, and so does the run."""
        self.told += 1_000
        self.train()
        bye = pb.GoodbyeRequest(session="honest", heartbeat=heartbeat(self.clock))
        self.tell(pb.Entry(goodbye=bye))
        self.tell(pb.Entry(ended=pb.Ended(state="completed", exit_code=0)))

    def honest(self) -> Rank:
        """What the summary says of the honest rank."""
        return summarized(self.collector.snapshot()).ranks[0]


def heartbeat(clock: Clock) -> pb.Heartbeat:
    return pb.Heartbeat(
        step=7,
        phase="forward",
        device_phase="backward",
        since_ns=10**9,
        cpu_seconds=2 * (clock() - STARTED_AT),
        resident_bytes=2**30,
        notes=["a note"],
        allocation_retries=1,
    )


def sampled() -> pb.Entry:
    sample = host_sample()
    gpu = gpu_sample()
    gpu.throttled.append("thermal")
    sample.gpus.append(gpu)
    return pb.Entry(sampled=sample)


def undisturbed() -> Rank:
    scene = Scene()
    for _ in scene.sound():
        pass
    scene.finish()
    return scene.honest()


def inner(message: Any, name: str) -> Message | None:
    """The message of that name in this one, or itself."""
    if message.DESCRIPTOR.name == name:
        found: Message = message
        return found
    for _, value in message.ListFields():
        for each in value if hasattr(value, "extend") else [value]:
            if isinstance(each, Message) and (inside := inner(each, name)) is not None:
                return inside
    return None


def odd_entries(scene: Scene, entry: pb.Entry, of: FieldDescriptor) -> Iterator[pb.Entry]:
    """The entry with each extreme of the field, if the field is anywhere in it."""
    template = inner(entry, message_of(of))
    for odd in altered(template, of) if template is not None else ():
        copy = pb.Entry()
        copy.CopyFrom(entry)
        place = inner(copy, message_of(of))
        assert place is not None
        place.CopyFrom(odd)
        if is_sound(copy.hello):
            continue
        if copy.HasField("push"):
            renumber(scene, copy.push, of)
        yield copy


def is_sound(hello: pb.HelloRequest) -> bool:
    """Whether it is that of another process, or of the other rank: what they may well say."""
    is_other = hello.session not in ("odd", "honest") or hello.identity.rank == 0
    return is_other and 0 < len(hello.session) <= 256 and hello.HasField("identity")


def renumber(scene: Scene, push: pb.PushRequest, of: FieldDescriptor) -> None:
    """Batches follow each other, unless that is what is odd."""
    scene.sequence += 1
    if of.name != "sequence":
        push.batch.sequence = scene.sequence
    if of.name != "step":
        steps = timed_records(range(scene.told, scene.told + ODD_STEPS))
        push.batch.step = encode(steps, 1).step
    scene.told += ODD_STEPS


FIELDS = [each for message in read_messages().values() for each in message.fields]
SENT = [each for each in FIELDS if message_of(each) != "ReportRequest"]
COLUMNS = [each for each in SENT if each.name in VALUES and message_of(each) == "Batch"]
TOGETHER = 9  # columns: what they hold stays in the statistics, so that each need not be looked at
CASES = [
    *([each] for each in SENT if each not in COLUMNS),
    *(COLUMNS[first : first + TOGETHER] for first in range(0, len(COLUMNS), TOGETHER)),
]
EXPECTED = undisturbed()


def assert_honest(scene: Scene) -> None:
    """Its figures are what they are without the other's; what waits for each other is not its own.

    Steps are all alike, so its typical step does not depend on how many were completed.
    """
    rank = scene.honest()
    assert rank.step_seconds == pytest.approx(EXPECTED.step_seconds, rel=1e-6)
    assert rank.phases == pytest.approx(EXPECTED.phases, rel=1e-6)
    for name in ("steps", "samples", "memory", "process", "host", "device", "group"):
        assert getattr(rank, name) == getattr(EXPECTED, name), name


def named(case: list[FieldDescriptor]) -> str:
    return f"{message_of(case[0])}.{case[0].name}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_field_out_of_all_bounds_costs_no_more_than_itself(case: list[FieldDescriptor]) -> None:
    scene = Scene()
    sent = 0
    for sound in scene.sound():
        for of in case:
            for odd in odd_entries(scene, sound, of):
                sent += 1
                scene.tell(odd, odd.at if of.name == "at" else None)
                if odd.HasField("push") and message_of(of) == "Heartbeat":
                    assert_readable(scene.collector.snapshot())  # the next one takes its place
    assert sent
    assert all("\n" not in reason and len(reason) < 200 for reason in scene.reasons)
    if scene.refused < sent:
        assert_sound(scene.collector)
    scene.finish()
    assert_honest(scene)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_fields_out_of_all_bounds_together_cost_no_more_than_themselves(
    data: st.DataObject,
) -> None:
    scene = Scene()
    for sound in scene.sound():
        for of in data.draw(st.lists(st.sampled_from(SENT), max_size=4)):
            found = list(odd_entries(scene, sound, of))
            if found:
                sound = data.draw(st.sampled_from(found))
        scene.tell(sound, sound.at or None)
    scene.finish()
    assert_sound(scene.collector)

"""The limits of every field, and what becomes of a value beyond them."""

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tests.builders import (
    gpu_sample,
    hello_request,
    host_sample,
    make_identity,
    make_records,
    timed_records,
)
from tests.sidecar.extremes import read_messages
from traceml.sidecar.checking import bounded, check
from traceml.sidecar.limits import (
    LIMITS,
    MAX_GPUS,
    Column,
    Flag,
    Inner,
    Number,
    Several,
    Text,
    Word,
)
from traceml.sidecar.refusal import MalformedError
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import VALUES, encode
from traceml.wire.tags import Tag

KINDS: dict[int, tuple[type, ...]] = {
    FieldDescriptor.TYPE_STRING: (Text, Word, Several),
    FieldDescriptor.TYPE_BYTES: (Column,),
    FieldDescriptor.TYPE_MESSAGE: (Inner, Several),
    FieldDescriptor.TYPE_BOOL: (Flag,),
}

NAN = float("nan")


@pytest.mark.parametrize("name", read_messages())
def test_every_field_that_a_sidecar_reads_has_its_limits(name: str) -> None:
    fields = read_messages()[name].fields
    assert set(LIMITS[name]) == {field.name for field in fields}
    for field in fields:
        assert isinstance(LIMITS[name][field.name], KINDS.get(field.type, (Number,))), field.name


def test_there_are_no_limits_of_messages_that_nobody_reads() -> None:
    assert set(LIMITS) == set(read_messages())


def honest() -> list[Message]:
    sample = host_sample()
    sample.gpus.append(gpu_sample())
    heartbeat = pb.Heartbeat(step=3, phase="h2d", cpu_seconds=1.5, notes=["a note"], tags=Tag.USER)
    return [
        hello_request("s", make_identity(3, 8, attempt=2)),
        pb.PushRequest(
            session="s", heartbeat=heartbeat, batch=encode(timed_records(range(9)), 1, preceding=70)
        ),
        pb.GoodbyeRequest(session="s", heartbeat=heartbeat),
        pb.Entry(at=1.7e9, sampled=sample),
        pb.Entry(ended=pb.Ended(state="failed", exit_code=-9)),
        pb.Entry(diagnosed=pb.Diagnosed(state="BALANCED", severity="info")),
    ]


@pytest.mark.parametrize("message", honest(), ids=lambda message: message.DESCRIPTOR.name)
def test_what_an_honest_rank_sends_is_left_as_it_is(message: Message) -> None:
    before = message.SerializeToString(deterministic=True)
    check(message)
    assert message.SerializeToString(deterministic=True) == before


NONSENSE: list[tuple[Message, str]] = [
    (pb.Identity(attempt=2**32 - 1, world_size=1, local_world_size=1),
     "Identity.attempt is 4294967295, and can be 0 to 10000"),
    (pb.Identity(world_size=2**31), "Identity.world_size is 2147483648, and can be 1 to 1048576"),
    (pb.Identity(rank=1), "Identity without local_world_size, world_size"),
    (pb.HelloRequest(session="s"), "HelloRequest without identity"),
    (pb.PushRequest(heartbeat=pb.Heartbeat()), "PushRequest without session"),
    (pb.PushRequest(session="x" * 10_000),
     f"PushRequest.session is '{'x' * 39}..., and can be 256 characters at most"),
    (pb.Batch(sequence=2**63),
     "Batch.sequence is 9223372036854775808, and can be 0 to 1099511627776"),
    (pb.Entry(at=NAN), "Entry.at is nan, and can be 0 to 8589934592"),
    (pb.Ended(state="won"),
     "Ended.state is 'won', and can be one of completed, failed, interrupted"),
    (pb.Ended(), "Ended without state"),
    (pb.Sampled(gpus=[pb.Gpu()] * 1000), f"Sampled.gpus is 1000, and can be {MAX_GPUS} at most"),
    (pb.Entry(sampled=pb.Sampled(gpus=[pb.Gpu(index=2**31)])),
     "Gpu.index is 2147483648, and can be 0 to 255"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "reason"), NONSENSE, ids=[reason for _, reason in NONSENSE])
def test_nonsense_is_refused_in_one_line(message: Message, reason: str) -> None:
    with pytest.raises(MalformedError) as refused:
        check(message)
    assert str(refused.value) == reason


@pytest.mark.parametrize("seconds", [NAN, float("inf"), -1.0, 1e308, 5e-324])
def test_a_figure_that_is_none_is_absent_and_costs_no_other(seconds: float) -> None:
    heartbeat = pb.Heartbeat(cpu_seconds=seconds, resident_bytes=2**30)
    check(heartbeat)
    assert heartbeat == pb.Heartbeat(resident_bytes=2**30)


def test_a_phase_that_nobody_knows_is_absent() -> None:
    heartbeat = pb.Heartbeat(phase="lunch", device_phase="forward")
    check(heartbeat)
    assert (heartbeat.phase, heartbeat.device_phase) == ("", "forward")


def test_notes_are_cut() -> None:
    heartbeat = pb.Heartbeat(notes=["x" * 10_000] * 1_000)
    check(heartbeat)
    assert list(heartbeat.notes) == ["x" * 500] * 8


@pytest.mark.parametrize("value", [-1.0, 1e17, 1e-30, float("inf"), float("-inf")])
def test_a_time_that_is_none_is_absent_in_its_step_alone(value: float) -> None:
    records = make_records(range(3), step_ns=5.0, forward_ns=[1.0, value, 2.0], h2d_ns=0.0)
    before = records.values.copy()
    before[1, VALUES.index("forward_ns")] = np.nan
    np.testing.assert_array_equal(bounded(records).values, before)


@pytest.mark.parametrize("value", [-1.0, 1e17, float("inf")])
def test_a_step_whose_length_is_none_is_no_record(value: float) -> None:
    with pytest.raises(ValueError, match="no length"):
        bounded(make_records(range(3), step_ns=[1.0, value, 1.0]))


def test_a_tag_that_nobody_knows_is_the_user_s() -> None:
    found = [bounded(make_records([0], tags=tags, step_ns=1.0)).tags[0] for tags in (0, 1, 32, 129)]
    assert found == [0, Tag.WARMUP, Tag.USER, Tag.WARMUP | Tag.USER]

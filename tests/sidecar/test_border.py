"""Extremes over a real socket, from the request to the summary that a journal gives again."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from tests.builders import Clock, hello_request, make_collector, make_identity, timed_records
from tests.client import Client
from tests.serving import serving
from tests.sidecar.extremes import altered, read_messages
from tests.sidecar.oracles import assert_sound
from traceml.files import Folder
from traceml.report.summary import summarized
from traceml.report.writing import rendered
from traceml.sidecar.collector import Collector
from traceml.sidecar.rebuild import rebuild
from traceml.sidecar.recovery import FOLDER
from traceml.sidecar.refusal import INTERNAL
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode
from traceml.wire.service import SERVICE

NAN = float("nan")

HELLO = hello_request("s", make_identity(0, 1))
PUSH = pb.PushRequest(
    session="s",
    heartbeat=pb.Heartbeat(step=5, phase="forward", cpu_seconds=2.0, resident_bytes=2**30),
    batch=encode(timed_records(range(5)), 1),
)
WHOLE: dict[str, Message] = {
    "Hello": HELLO,
    "Push": PUSH,
    "Goodbye": pb.GoodbyeRequest(session="s", heartbeat=PUSH.heartbeat),
    "Report": pb.ReportRequest(session="s"),
}
KNOWN = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
}


@pytest.fixture
def collector() -> Collector:
    return make_collector(Clock())


@pytest.fixture
def channel(collector: Collector, tmp_path: Path) -> Iterator[grpc.Channel]:
    endpoint = f"unix://{tmp_path}/s"
    with (
        serving(collector, endpoint, folder=tmp_path / FOLDER),
        grpc.insecure_channel(endpoint) as channel,
    ):
        yield channel


def answer(channel: grpc.Channel, method: str, message: Message) -> grpc.StatusCode:
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        call(message.SerializeToString(), timeout=10)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def odd_requests() -> Iterator[tuple[str, Message]]:
    """Each request with each extreme of each field, at its top and in what is within."""
    messages = read_messages()
    for method, whole in WHOLE.items():
        for field in messages[type(whole).__name__].fields:
            yield from ((method, odd) for odd in altered(whole, field))
            if field.message_type is None:
                continue
            for inner in field.message_type.fields:
                for odd in altered(getattr(whole, field.name), inner):
                    copy = type(whole)()
                    copy.CopyFrom(whole)
                    getattr(copy, field.name).CopyFrom(odd)
                    yield method, copy


def test_requests_out_of_all_bounds_are_answered_and_never_an_error(
    channel: grpc.Channel, collector: Collector
) -> None:
    assert answer(channel, "Hello", HELLO) is grpc.StatusCode.OK
    answers = [answer(channel, *request) for request in odd_requests()]
    assert set(answers) <= KNOWN
    assert collector.refused["malformed"] == answers.count(grpc.StatusCode.INVALID_ARGUMENT) > 0
    assert collector.refused[INTERNAL] == 0
    assert_sound(collector)


def test_a_heartbeat_of_nan_costs_neither_the_summary_nor_the_one_made_again_from_the_journal(
    channel: grpc.Channel, collector: Collector, tmp_path: Path
) -> None:
    client = Client(channel)
    client.hello(HELLO, timeout=10)
    client.push(PUSH, timeout=10)
    odd = pb.Heartbeat(step=6, phase="lunch", cpu_seconds=NAN, resident_bytes=2**63)
    client.push(pb.PushRequest(session="s", heartbeat=odd), timeout=10)
    rank = assert_sound(collector).ranks[0]
    assert (rank.step, rank.cpu_seconds, rank.resident_bytes) == (6, 2.0, None)
    with Folder.at(tmp_path) as run:
        again = rebuild(run)
    assert again is not None
    assert json.loads(rendered(summarized(again), "json"))["ranks"][0]["process"] == {
        "cpu_seconds": 2.0
    }


def test_an_absurd_attempt_does_not_silence_the_others(
    channel: grpc.Channel, collector: Collector
) -> None:
    client = Client(channel)
    client.hello(hello_request("0", make_identity(0, 2)), timeout=10)
    odd = hello_request("odd", make_identity(1, 2, attempt=2**32 - 1))
    assert answer(channel, "Hello", odd) is grpc.StatusCode.INVALID_ARGUMENT
    client.hello(hello_request("1", make_identity(1, 2)), timeout=10)
    for session in ("0", "1"):
        push = pb.PushRequest(session=session, batch=encode(timed_records(range(5)), 1))
        client.push(push, timeout=10)
    assert collector.snapshot().steps.completed == 5

"""A real server and a real channel, over a unix socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.builders import (
    Clock,
    hello_request,
    make_collector,
    make_identity,
    malformed_batch,
    timed_records,
)
from tests.client import Client, channel_to
from tests.serving import serving
from traceml.report.flat import flat
from traceml.report.summary import summary
from traceml.sidecar.collector import Collector
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, encode


@pytest.fixture
def collector() -> Collector:
    return make_collector(Clock())


@pytest.fixture
def client(collector: Collector, tmp_path: Path) -> Iterator[Client]:
    endpoint = f"unix://{tmp_path}/sidecar.sock"
    with serving(collector, endpoint), channel_to(endpoint) as channel:
        yield Client(channel)


def refusal(method: Any, request: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        method(request, timeout=10)
    return caught.value


def test_a_rank_says_hello_sends_its_steps_and_says_goodbye(
    client: Client, collector: Collector
) -> None:
    hello = client.hello(hello_request("s", make_identity(0, 1)), timeout=10)
    heartbeat = pb.Heartbeat(step=5, phase="forward")
    batch = encode(timed_records(range(5)), 1)
    push = client.push(pb.PushRequest(session="s", heartbeat=heartbeat, batch=batch), timeout=10)
    client.goodbye(pb.GoodbyeRequest(session="s", heartbeat=heartbeat), timeout=10)
    snapshot = collector.snapshot()
    assert (hello.protocol, push.acknowledged) == (PROTOCOL, 1)
    assert snapshot.steps.completed == 5
    assert (snapshot.ranks[0].phase, snapshot.ranks[0].parted) == ("forward", True)


def test_a_rank_that_is_too_new_is_told_what_to_do(client: Client, collector: Collector) -> None:
    error = refusal(client.hello, hello_request("s", make_identity(0, 1), protocol=PROTOCOL + 1))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"speaks protocol {PROTOCOL + 1}" in error.details()
    assert f"this sidecar at most {PROTOCOL}" in error.details()
    assert "update the sidecar" in error.details()
    assert collector.snapshot().notes == (error.details(),)


def test_an_older_rank_is_welcome(client: Client) -> None:
    reply = client.hello(hello_request("s", make_identity(0, 1), protocol=0), timeout=10)
    assert reply.protocol == PROTOCOL


@pytest.mark.parametrize("method", ["push", "goodbye", "report"])
def test_a_process_that_has_not_said_hello_is_asked_to(method: str, client: Client) -> None:
    requests = {"push": pb.PushRequest, "goodbye": pb.GoodbyeRequest, "report": pb.ReportRequest}
    request = requests[method](session="nobody")
    error = refusal(getattr(client, method), request)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error.details() == "say hello first"


def test_a_rank_is_told_what_is_to_be_said_of_the_run(client: Client, collector: Collector) -> None:
    client.hello(hello_request("s", make_identity(0, 1)), timeout=10)
    client.push(pb.PushRequest(session="s", batch=encode(timed_records(range(5)), 1)), timeout=10)
    whole = client.report(pb.ReportRequest(session="s"), timeout=10)
    figures = client.report(pb.ReportRequest(session="s", flat=True), timeout=10)
    assert json.loads(whole.json) == summary(collector.snapshot())
    assert json.loads(figures.json) == flat(collector.snapshot())
    assert collector.snapshot().telemetry.requests_refused["internal"] == 0


def test_a_malformed_batch_is_acknowledged_counted_and_noted(
    client: Client, collector: Collector
) -> None:
    client.hello(hello_request("s", make_identity(0, 1)), timeout=10)
    push = client.push(pb.PushRequest(session="s", batch=malformed_batch(4)), timeout=10)
    snapshot = collector.snapshot()
    assert push.acknowledged == 4
    assert snapshot.ranks[0].records_dropped["malformed"] == 3
    assert snapshot.ranks[0].records_received == 0
    assert snapshot.notes == (
        "rank 0 sent a batch that is no batch: "
        "column forward_ns holds 2 values, the batch 3 records",
    )


def test_an_endpoint_that_cannot_be_bound_is_an_os_error(
    collector: Collector, tmp_path: Path
) -> None:
    (tmp_path / "no_folder").touch()
    endpoint = f"unix://{tmp_path}/no_folder/sidecar.sock"
    with pytest.raises(OSError, match="cannot listen at"), serving(collector, endpoint):
        pass

"""The oldest dependencies that pyproject.toml allows can be installed together, and work."""

import os
import signal
import subprocess
from contextlib import AbstractContextManager

import pytest

from tests import floors
from tests.launching import Launcher, eventually
from tests.receiver import Received, grpc_receiver, http_receiver

REPORTING = """\
import sys
from tests.builders import hello_request, make_identity, timed_records
from traceml.rank.channel import open_channel
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode
from traceml.wire.service import path_of

channel = open_channel(sys.argv[1])
for method, request in (
    ("Hello", hello_request("session", make_identity(0, 1))),
    ("Push", pb.PushRequest(session="session", batch=encode(timed_records(range(20)), 1))),
    ("Goodbye", pb.GoodbyeRequest(session="session")),
):
    channel.start(path_of(method), request.SerializeToString(), 30)
    while (outcome := channel.advance()) is None:
        channel.wait(0.1)
    assert outcome.status == 0, (method, outcome)
"""


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return floors.python()
    except subprocess.CalledProcessError as error:
        if os.environ.get("TRACEML_REQUIRE_REAL") == "1" or "conflict" in error.stderr:
            pytest.fail(error.stderr)
        pytest.skip("no packages to be had")


@pytest.mark.parametrize(
    ("protocol", "receiver"), [("grpc", grpc_receiver()), ("http/protobuf", http_receiver())]
)
def test_a_run_reports_is_served_sent_and_summarized_with_them(
    python: str,
    launcher: Launcher,
    protocol: str,
    receiver: AbstractContextManager[tuple[Received, int]],
) -> None:
    environment = {
        "PYTHONPATH": str(floors.ROOT),
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }
    with receiver as (received, port):
        own = ["--run-name", "test", "--metrics-port", "0", "--linger", "0"]
        own += ["--otlp-endpoint", f"http://127.0.0.1:{port}"]
        sidecar = launcher.popen([python, "-m", "traceml", "sidecar", *own], environment)
        where = launcher.sidecar()["endpoint"]
        rank = launcher.popen([python, "-c", REPORTING, where], environment)
        assert launcher.finish(rank).exit_code == 0
        eventually(lambda: launcher.completed() == 20)
        eventually(lambda: "traceml.steps.completed" in received.metric_names())
        sidecar.send_signal(signal.SIGTERM)
        finished = launcher.finish(sidecar)
    assert (finished.exit_code, finished.summary["run"]["status"]) == (0, "completed")
    assert finished.summary["step_time"]["steps"]["completed"] == 20


def test_a_dependency_without_a_floor_is_an_error() -> None:
    given = ["a>=1.2", "b>=3; python_version < '3'", "c>=4,<5"]
    assert floors.floors(given) == ["a==1.2", "c==4"]
    with pytest.raises(AssertionError, match="which version"):
        floors.floors(["d"])

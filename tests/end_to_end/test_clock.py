"""A machine whose clock is set while a run is under way."""

import signal
import sys
import time
from pathlib import Path

import grpc

from tests.builders import hello_request, make_identity, timed_records
from tests.client import Client
from tests.launching import SCRIPTS, Launcher, eventually
from tests.ranks import Rank
from traceml.files import write_atomically
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode

HOUR = 3600.0


def test_a_clock_set_forth_and_back_hides_no_rank_that_lives_and_keeps_none_that_is_dead(
    launcher: Launcher, tmp_path: Path
) -> None:
    off_by = tmp_path / "off_by"
    write_atomically(off_by, "0")
    own = ["--run-name", "test", "--metrics-port", "0", "--linger", "0"]
    traceml = [sys.executable, str(SCRIPTS / "clock_set.py"), str(off_by)]
    sidecar = launcher.popen([*traceml, "sidecar", *own])
    endpoint = launcher.sidecar()["endpoint"]
    with Rank(endpoint, 0, 2) as living:
        say_once(endpoint, rank=1)
        living.train(5)
        eventually(lambda: launcher.completed() == 5)
        write_atomically(off_by, str(HOUR))
        living.train(5)
        write_atomically(off_by, str(-HOUR))
        seen: list[float | None] = []
        eventually(lambda: reporting(launcher, seen) == 1)
        assert set(seen) == {1, 2}
        assert launcher.value('traceml_records_received_total{rank="0",run="test"}') == 10.0
        last_step = launcher.value('traceml_last_step_timestamp_seconds{run="test"}')
        assert last_step is not None
        assert abs(last_step - (time.time() - HOUR)) < HOUR / 2
    sidecar.send_signal(signal.SIGTERM)
    assert 0 < launcher.finish(sidecar).summary["run"]["duration_seconds"] < HOUR / 2


def say_once(endpoint: str, rank: int) -> None:
    """A rank that tells of its first steps and is not heard of again."""
    with grpc.insecure_channel(endpoint) as channel:
        client = Client(channel)
        client.hello(hello_request("s", make_identity(rank, 2)), timeout=10)
        batch = encode(timed_records(range(5)), 1)
        client.push(pb.PushRequest(session="s", batch=batch), timeout=10)


def reporting(launcher: Launcher, seen: list[float | None]) -> float | None:
    seen.append(launcher.value('traceml_ranks_reporting{run="test"}'))
    return seen[-1]

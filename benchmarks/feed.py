"""Simulated ranks that speak to a real sidecar over its real socket."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator
from multiprocessing.queues import Queue
from queue import SimpleQueue
from typing import Any

import numpy as np

from tests.client import Client, channel_to
from traceml.rank.turns import report_seconds
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, VALUES, Matrix, Records, encode

CALL_SECONDS = 10.0

# Of a step of about 1 ms, nanoseconds. Nothing is copied to a device on a CPU.
_PHASE_NS = {
    "dataloader": 4e4,
    "forward": 3e5,
    "backward": 4e5,
    "optimizer": 1e5,
    "collective_wait": 1e5,
    "other": 6e4,
}
_VARIETY = 1_000  # different steps per rank, then the same again
_RESIDENT_BYTES = 2**29


class Ranks:
    """All ranks of a node; each has a channel and a session, and one call in flight."""

    def __init__(self, endpoint: str, count: int) -> None:
        self.count = count
        self.period_seconds = report_seconds(count)
        self.step = 0
        self._sequence = 0
        self._values = _values(count)
        self._channels = [channel_to(endpoint) for _ in range(count)]
        self._clients = [Client(channel) for channel in self._channels]
        self._settle(
            client.hello.future(self._hello(rank), timeout=CALL_SECONDS, wait_for_ready=True)
            for rank, client in enumerate(self._clients)
        )

    def push(self, steps: int, over_seconds: float = 0.0) -> list[float]:
        """Every rank reports its next `steps` steps in one batch; in turn, over that time.

        Returns when all are taken: how long each rank's call took, in seconds.
        """
        self._sequence += 1
        took: SimpleQueue[float] = SimpleQueue()
        self._settle(self._timed_pushes(steps, over_seconds, took))
        self.step += steps
        return [took.get() for _ in range(self.count)]

    def push_for(
        self, seconds: float, steps_a_second: float, told: "Queue[list[float]] | None" = None
    ) -> None:
        """Report as often as real senders, and in turn; tell how long each rank's call took."""
        begin, steps = time.monotonic(), round(steps_a_second * self.period_seconds)
        for end in itertools.count(begin + self.period_seconds, self.period_seconds):
            if end - begin > seconds:
                return
            took = self.push(steps, self.period_seconds)
            if told is not None:
                told.put(took)
            _sleep_until(end)

    def request(self, rank: int, steps: int) -> pb.PushRequest:
        """What a rank would send for its next `steps` steps."""
        rows = np.arange(self.step, self.step + steps)
        records = Records(
            step=rows,
            tags=np.zeros(steps, dtype=np.int64),
            values=self._values[rank, rows % _VARIETY],
        )
        batch = encode(records, self._sequence, self.step)
        return pb.PushRequest(session=str(rank), heartbeat=self._heartbeat(), batch=batch)

    def close(self) -> None:
        """Say goodbye, all of them."""
        self._settle(
            client.goodbye.future(
                pb.GoodbyeRequest(session=str(rank), heartbeat=self._heartbeat()),
                timeout=CALL_SECONDS,
            )
            for rank, client in enumerate(self._clients)
        )
        for channel in self._channels:
            channel.close()

    def _timed_pushes(
        self, steps: int, over_seconds: float, took: SimpleQueue[float]
    ) -> Iterator[Any]:
        begin = time.monotonic()
        for rank in range(self.count):
            _sleep_until(begin + rank / self.count * over_seconds)
            yield self._timed_push(rank, steps, took)

    def _timed_push(self, rank: int, steps: int, took: SimpleQueue[float]) -> Any:
        request = self.request(rank, steps)
        begin = time.perf_counter()
        call = self._clients[rank].push.future(request, timeout=CALL_SECONDS)
        call.add_done_callback(lambda _: took.put(time.perf_counter() - begin))
        return call

    def _hello(self, rank: int) -> pb.HelloRequest:
        identity = pb.Identity(
            rank=rank,
            local_rank=rank,
            world_size=self.count,
            local_world_size=self.count,
            host="simulated",
            device="cpu",
            strategy="ddp",
            fingerprint="8x1",
        )
        return pb.HelloRequest(protocol=PROTOCOL, session=str(rank), identity=identity)

    def _heartbeat(self) -> pb.Heartbeat:
        return pb.Heartbeat(
            step=self.step, phase="forward", cpu_seconds=1.0, resident_bytes=_RESIDENT_BYTES
        )

    def _settle(self, calls: Iterable[Any]) -> None:
        for call in list(calls):  # all are started before the first is waited for
            call.result()


def feed(endpoint: str, ranks: int, steps_a_second: float, told: "Queue[list[float]]") -> None:
    """Report until the process is ended."""
    Ranks(endpoint, ranks).push_for(math.inf, steps_a_second, told)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _values(ranks: int) -> Matrix:
    """Steps that vary as real ones do: rank x step x VALUES."""
    shape = (ranks, _VARIETY)
    generator = np.random.default_rng(0)
    columns = {
        f"{phase}_ns": typical * generator.lognormal(0.0, 0.2, shape)
        for phase, typical in _PHASE_NS.items()
    }
    columns["step_ns"] = np.sum(list(columns.values()), axis=0)
    for phase in ("dataloader", "forward", "backward", "optimizer"):
        columns[f"{phase}_end_ns"] = columns["step_ns"] / 2
    columns["end_ns"] = np.cumsum(columns["step_ns"], axis=1)
    columns["overhead_ns"] = np.full(shape, 15e3)
    columns["resident_bytes"] = np.full(shape, float(_RESIDENT_BYTES))
    columns["samples"] = np.full(shape, 32.0)
    columns["elements"] = np.full(shape, 5120.0)
    absent = np.full(shape, np.nan)
    return np.stack([columns.get(name, absent) for name in VALUES], axis=-1)

"""A device's stream whose time is told by hand, and a training that marks its phases on it."""

from dataclasses import dataclass, field
from typing import Any

from tests.rank.tape import Step, steps_of
from traceml.rank import events
from traceml.rank.clocks import Clocks
from traceml.rank.device import Backend
from traceml.rank.device_clock import DeviceClock
from traceml.rank.events import Recorder


@dataclass
class Stream:
    """What is queued ends at `end_ms`; the device has come as far as `now_ms`."""

    stream_id: int = 0
    device_index: int = 0
    end_ms: float = 0.0
    now_ms: float = 0.0
    capturing: bool = False
    made: int = 0
    recorded: int = 0
    queried: int = 0
    broken: set[str] = field(default_factory=set)  # methods of events that raise

    def work(self, ms: float) -> None:
        """A kernel is queued."""
        self.end_ms += ms

    def catch_up(self) -> None:
        """The device does all that is queued."""
        self.now_ms = self.end_ms

    def make(self) -> "StreamEvent":
        self.made += 1
        return StreamEvent(self)


class StreamEvent:
    """Shaped like `torch.cuda.Event`."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.at_ms = float("inf")
        self.late_ms = 0.0  # as if it were on another stream, that lags

    def record(self, stream: Stream) -> None:
        self._break("record")
        stream.recorded += 1
        self.at_ms, self.late_ms = stream.end_ms, 0.0

    def query(self) -> bool:
        self._break("query")
        self.stream.queried += 1
        return self._has_passed()

    def elapsed_time(self, other: "StreamEvent") -> float:
        self._break("elapsed_time")
        if not (self._has_passed() and other._has_passed()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return other.at_ms - self.at_ms

    def _has_passed(self) -> bool:
        return self.at_ms + self.late_ms <= self.stream.now_ms

    def _break(self, method: str) -> None:
        assert not self.stream.capturing, f"{method} while a graph is captured"
        if method in self.stream.broken:
            raise RuntimeError("an illegal memory access was encountered")


class Training:
    """Steps of a training on that device, and what is recorded of them."""

    def __init__(self, capacity: int = events.CAPACITY) -> None:
        self.stream = Stream()
        self.recorder = Recorder(capacity, divertible=True)
        self.recorder.note(events.SCOPE)
        self.current: Any = self.stream  # the stream that work is queued on
        backend = Backend(self.stream.make, lambda: self.current, lambda: self.stream.capturing)
        self.clock = DeviceClock(self.recorder, backend)
        self.clock.start()
        self.clocks = Clocks(self.recorder, self.clock)

    def during(self, begin: int, end: int, ms: float) -> None:
        self.recorder.mark(begin)
        self.stream.work(ms)
        self.recorder.mark(end)

    def step(self, fetch: float = 0, forward: float = 10, wait: float = 0) -> None:
        """Besides what is said: 20 ms of backward, and 5 of optimizer."""
        self.during(events.FETCH, events.FETCH_END, fetch)
        self.during(events.FORWARD_TRAIN, events.FORWARD_END, forward)
        self.recorder.mark(events.BACKWARD)
        self.stream.work(20)
        if wait:
            self.recorder.mark(events.READY)
            self.stream.work(wait)
        self.recorder.mark(events.BACKWARD_END)
        self.during(events.OPTIMIZER, events.OPTIMIZER_END, 5)
        self.recorder.finish()

    def steps(self, ended: bool = False) -> list[Step]:
        """Those that are reported now."""
        pairs: list[Any] = self.clocks.feed(*self.recorder.take())
        if ended:
            pairs += self.clocks.finish()
        return steps_of([row for row, _ in pairs], [timed for _, timed in pairs])

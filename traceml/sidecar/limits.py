"""What each field of each message may hold: the one place where that is decided.

A value beyond its limits has one of two consequences, by what it is:

- What says who speaks, of what, and in which order (ranks, sessions, sequences, words of the
  sidecar's own) is nonsense then: the whole message is refused, and counted as malformed.
- What was measured or counted is absent then (`measured`), as if it had not been measured, and
  free text is cut: a broken sensor costs its own figure and nothing else.

Limits are far beyond what there is, and so near that sums, squares and quotients of values
within them stay finite and can be read again. What is above 0 and below `smallest` is none of
these either: a quotient by it would not be finite.

What has to be there (`is_required`) is refused where it is not, and so is what is empty or 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, get_args

from traceml.diagnosis.finding import SEVERITIES
from traceml.report.document import Status
from traceml.wire import MAX_MESSAGE_BYTES
from traceml.wire.columns import PHASES, VALUES
from traceml.wire.tags import Tag

MAX_LOCAL_RANKS = 1024  # of one node
MAX_KEPT_RANKS = 4 * MAX_LOCAL_RANKS  # that have ever spoken: a new attempt may number them anew
MAX_RANKS = 2**20  # of a run
MAX_GPUS = 256  # of one node

_UINT32 = 2**32 - 1
_RECORD_BYTES = 9  # step, tags and length: less is no record


@dataclass(frozen=True, slots=True)
class Number:
    """From `least` to `most`; if it is 0 at the least, 0 or from `smallest` on."""

    least: float
    most: float
    smallest: float = 0.0
    is_measured: bool = False

    @property
    def is_required(self) -> bool:
        """Whether 0, as which protobuf reads what is not there, is too little."""
        return self.least > 0

    def allows(self, value: float) -> bool:
        """Whether it may be this; NaN is never."""
        return self.least <= value <= self.most and not 0 < value < self.smallest


@dataclass(frozen=True, slots=True)
class Text:
    """So many characters; longer text is cut if it is free text, and otherwise refused."""

    most: int
    is_free: bool = False
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One of these."""

    known: tuple[str, ...]
    is_measured: bool = False

    @property
    def is_required(self) -> bool:
        """Whether none at all will not do."""
        return not self.is_measured


@dataclass(frozen=True, slots=True)
class Several:
    """So many of a kind; of free text the first are kept, of anything else more is refused."""

    most: int
    of: "Text | Inner"


@dataclass(frozen=True, slots=True)
class Column:
    """A value of this kind for each record; see `checking.bounded`."""

    of: Number


@dataclass(frozen=True, slots=True)
class Inner:
    """A message with fields of its own."""

    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """Either will do."""


Kind: TypeAlias = Number | Text | Word | Several | Column | Inner | Flag


def measured(kind: Number) -> Number:
    """The same, absent where it is beyond its limits."""
    return replace(kind, is_measured=True)


COUNT = Number(0, 2**40)
STEPS = Number(0, _UINT32)  # a batch numbers its steps in 32 bits
RANK = Number(0, MAX_RANKS - 1)
BYTES = Number(0, 2**53, smallest=1)
DURATION_NS = Number(0, 1e16, smallest=1)  # 115 days; ranks measure in whole nanoseconds
CLOCK_NS = Number(0, 1e18)  # a machine that is up for 31 years
CPU_SECONDS = Number(0, 1e12, smallest=1e-9)
RATIO = Number(0, 1, smallest=1e-6)
UNIX_TIME = Number(0, 2**33)  # in the year 2242
NAME = Text(256)
SESSION = Text(256, is_required=True)
SHORT = Text(64)
MESSAGE = Inner()


def _column(name: str) -> Column:
    """Of a value that is measured in each step."""
    if name == "end_ns":
        return Column(CLOCK_NS)
    if name.endswith("_ns"):
        return Column(DURATION_NS)
    if name.endswith("_bytes"):
        return Column(BYTES)
    return Column({
        "allocation_retries": COUNT,
        "samples": Number(0, 1e9, smallest=1),
        "elements": Number(0, 1e12, smallest=1),
    }[name])  # fmt: skip


LIMITS: Mapping[str, Mapping[str, Kind]] = {
    "HelloRequest": {
        "protocol": Number(0, _UINT32),
        "session": SESSION,
        "identity": Inner(is_required=True),
    },
    "Identity": {
        "rank": RANK,
        "local_rank": Number(0, MAX_LOCAL_RANKS - 1),
        "world_size": Number(1, MAX_RANKS),
        "local_world_size": Number(1, MAX_LOCAL_RANKS),
        "node_rank": RANK,
        # Torchelastic counts restarts up to its --max-restarts, and each takes the seconds in
        # which torch is imported. `Sessions.check` knows a nearer limit.
        "attempt": Number(0, 10_000),
        "host": NAME,
        "pid": measured(Number(0, 2**22)),  # the most that Linux gives
        "device": NAME,
        "gpu_uuid": NAME,
        "strategy": NAME,
        "fingerprint": NAME,
        "torch": NAME,
        "python": NAME,
        "traceml": NAME,
        "memory_limit_bytes": measured(BYTES),
    },
    "PushRequest": {"session": SESSION, "heartbeat": MESSAGE, "batch": MESSAGE},
    "GoodbyeRequest": {"session": SESSION, "heartbeat": MESSAGE},
    "ReportRequest": {"session": SESSION, "flat": Flag()},
    "Heartbeat": {
        "step": STEPS,
        "phase": Word(PHASES, is_measured=True),
        "since_ns": measured(CLOCK_NS),
        "cpu_seconds": measured(CPU_SECONDS),
        "resident_bytes": measured(BYTES),
        "dropped_ring": measured(COUNT),
        "dropped_backlog": measured(COUNT),
        "faults": measured(COUNT),
        "notes": Several(8, Text(500, is_free=True)),
        "tags": measured(Number(0, sum(Tag))),
        "allocation_retries": measured(COUNT),
        "device_phase": Word(PHASES, is_measured=True),
    },
    "Batch": {
        "sequence": COUNT,
        "records": Number(0, MAX_MESSAGE_BYTES // _RECORD_BYTES),
        "preceding": STEPS,
        "step": Column(STEPS),
        "tags": Column(Number(0, sum(Tag))),
        **{name: _column(name) for name in VALUES},
    },
    "Entry": {
        "at": UNIX_TIME,
        **dict.fromkeys(("hello", "push", "goodbye"), MESSAGE),
        **dict.fromkeys(("started", "ended", "excused", "sampled", "diagnosed"), MESSAGE),
    },
    "Started": {"restarts": Number(0, 10**6), "policy": Text(2**16)},
    "Ended": {
        "state": Word(tuple(word for word in get_args(Status) if word != "running")),
        "exit_code": Number(-(2**31), 2**31 - 1),
    },
    "Excused": {"rank": RANK},
    "Diagnosed": {"state": SHORT, "severity": Word(SEVERITIES), "rank": RANK, "phase": SHORT},
    "Sampled": {
        "cpu_utilization_ratio": measured(RATIO),
        "memory_used_bytes": measured(BYTES),
        "memory_size_bytes": measured(BYTES),
        "gpus": Several(MAX_GPUS, MESSAGE),
        "gpu_failures": measured(COUNT),
    },
    "Gpu": {
        "index": Number(0, MAX_GPUS - 1),
        "uuid": NAME,
        "utilization_ratio": measured(RATIO),
        "memory_used_bytes": measured(BYTES),
        "memory_size_bytes": measured(BYTES),
        "temperature_celsius": measured(Number(-100, 1000)),
        "power_watts": measured(Number(0, 1e5, smallest=1e-3)),
        "power_limit_watts": measured(Number(0, 1e5, smallest=1e-3)),
        "throttled": Several(16, Text(64, is_free=True)),
        "sm_clock_hertz": measured(Number(0, 1e12, smallest=1)),
        "sm_clock_max_hertz": measured(Number(0, 1e12, smallest=1)),
        "ecc_corrected": measured(COUNT),
        "ecc_uncorrected": measured(COUNT),
        "xids": measured(COUNT),
    },
}  # by message, and field

REQUIRED = {
    message: tuple(name for name, kind in limits.items() if getattr(kind, "is_required", False))
    for message, limits in LIMITS.items()
}

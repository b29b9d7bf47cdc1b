"""What a run is told to do: segments of steps, most of them healthy, some with a fault."""

import json
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

ALL, ROTATING = "all", "rotating"
PLACES = ("input", "forward", "backward", "optimizer", "other", "exchange")
MODELS = ("ddp", "batch_norm", "sync_norm", "reduce_between", "fsdp")
SLEEP, COMPUTE = "sleep", "compute"  # what work is made of

WINDOW_STEPS = 100
FAULT_STEPS = HEALTHY_STEPS = WINDOW_STEPS + 10
CALIBRATION_STEPS = 30  # healthy ones, before the first segment


@dataclass(frozen=True, slots=True)
class Segment:
    """So many steps of one kind; without anything else they are healthy."""

    steps: int = HEALTHY_STEPS
    place: str = ""  # where it is slow or stuck
    ranks: int | str = ALL  # a rank's number, all, or another one each time
    delay: float = 0.0  # added, as a share of a healthy step
    every: int = 1  # one step in so many is slow
    stuck: str = ""  # "asleep" or "stopped": in its first step, for good
    leak_mib: float = 0.0  # kept with every step
    batch_spread: float = 0.0  # batches, and their work, differ by so much from the mean
    accumulate: int = 1  # batches a step
    save_every: int = 0  # steps
    evaluate_every: int = 0  # steps

    @property
    def is_fault(self) -> bool:
        """Whether something should be found in it."""
        return bool(self.delay or self.stuck or self.leak_mib)

    @property
    def label(self) -> str:
        """What is special in it, for a table."""
        who = self.ranks if isinstance(self.ranks, str) else f"rank {self.ranks}"
        if self.stuck:
            return f"{who} {self.stuck} in {self.place}"
        if self.leak_mib:
            return f"{who} leaks {self.leak_mib:g} MiB a step"
        if self.delay:
            often = "" if self.every == 1 else f", one step in {self.every}"
            return f"{who} slow in {self.place}, {self.delay:.2f} of a step{often}"
        return self._habit

    @property
    def _habit(self) -> str:
        habits = {
            f"batches of {1 - self.batch_spread:.2f} to {1 + self.batch_spread:.2f}": (
                self.batch_spread
            ),
            f"{self.accumulate} batches a step": self.accumulate > 1,
            f"torch.save every {self.save_every} steps": self.save_every,
            f"evaluation every {self.evaluate_every} steps": self.evaluate_every,
        }
        return ", ".join(label for label, is_so in habits.items() if is_so) or "healthy"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One run."""

    name: str
    world_size: int
    segments: tuple[Segment, ...]
    work: str = SLEEP
    model: str = "ddp"
    cold_seconds: float = 0.0  # before the first batch
    judged_whole: bool = False  # its summary should name the one fault that it has, or none

    @property
    def starts(self) -> list[int]:
        """The first step of each segment, as TraceML numbers them."""
        lengths = (segment.steps for segment in self.segments[:-1])
        return list(accumulate(lengths, initial=CALIBRATION_STEPS))

    @property
    def steps(self) -> int:
        """All of them."""
        return CALIBRATION_STEPS + sum(segment.steps for segment in self.segments)

    @property
    def is_stuck(self) -> bool:
        """Whether it never ends by itself."""
        return any(segment.stuck for segment in self.segments)

    def to_json(self) -> str:
        """For a file beside the run."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Schedule":
        """What `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        segments = tuple(Segment(**each) for each in fields.pop("segments"))
        return cls(**fields, segments=segments)

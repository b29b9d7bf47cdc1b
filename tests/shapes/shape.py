"""What is expected of TraceML for one shape of training loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
PLANTED = 0.05  # seconds of sleep in each step of a script that plants a delay

COMPUTE = frozenset({"forward", "backward", "optimizer"})


@dataclass(frozen=True)
class Shape:
    """A script that knows nothing of TraceML, and the figures it must get.

    The script prints `loss <rank> <float.hex()>` for each of its steps, and
    nothing about time, so that two runs of it print the same.
    """

    script: str  # under scripts/, without .py
    steps: int  # what its loop does on each rank, or where ranks differ what they have in common
    processes: int | None = None  # --nproc-per-node; None: plain python
    ranks: int = 1
    planted: str | None = None  # the phase that takes PLANTED longer in each step
    slow_rank: int | None = None  # where it does; None: everywhere
    found: frozenset[str] = COMPUTE  # phases that must be there
    absent: frozenset[str] = frozenset()  # phases that can't be told apart here
    # Steps by tag; one with several counts as the first of warmup, compile, checkpoint, eval.
    excluded: Mapping[str, int] = field(default_factory=lambda: {"warmup": 1})
    rank_steps: Mapping[int, int] = field(default_factory=dict)  # of a rank that does more
    note: str | None = None  # a part of the sentence that says what could not be measured
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As the test is called; the script's name, and what sets this use of it apart."""
        return "-".join([self.script, *(f"{k}={v}" for k, v in self.environment.items())])

"""What a training on the fake accelerator does, and how long it takes there."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Plan:
    """A training. Times are milliseconds: of fetch and launch on the CPU, of all else on the
    device.
    """

    shape: str = "plain"
    fetch: float = 0.0
    copy: float = 0.0
    forward: float = 40.0  # of the whole model, once through
    backward: float = 80.0
    optimizer: float = 8.0
    other: float = 0.0  # after the optimizer
    collective: float = 0.0  # each
    on_current_stream: bool = True  # where synchronous collectives run, as since torch 2.8
    blocks: int = 4
    launch: float = 0.0  # of each block's kernel, in forward and in backward
    micro_batches: int = 1
    steps: int = 14
    ahead: int = 4  # steps that the CPU may be before the device; 0: waits for each
    reads_loss: bool = False  # in each step, when the optimizer has its work
    frozen: bool = False  # `gc.freeze()` before the first step
    traced: bool = True

    # Ranks: without a rendezvous one process stands for all; one alone has no process group.
    rank: int = 0
    world: int = 2
    rendezvous: str = ""  # a folder that the ranks share
    late_rank: int = 1  # this rank takes longer,
    late_phase: str = ""  # in one of the times above,
    late_ms: float = 0.0  # by so much,
    late_from: int = 0  # from this step on

    def at(self, step: int) -> "Plan":
        """With the times of this step."""
        is_late = self.late_phase and self.rank == self.late_rank and step >= self.late_from
        if not is_late:
            return self
        late = getattr(self, self.late_phase) + self.late_ms
        return replace(self, **{self.late_phase: late})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Plan:
    told: dict[str, Any] = json.loads(text)
    return Plan(**told)

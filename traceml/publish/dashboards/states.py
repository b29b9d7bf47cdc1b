"""What each diagnosis means, in the few words of a cell, and which runbook says what to do."""

from collections.abc import Mapping
from dataclasses import dataclass

from traceml.publish.dashboards.queries import ACROSS_NODES


@dataclass(frozen=True, slots=True)
class Told:
    """A state for somebody who has not seen it before."""

    why: str
    runbook: str = ""  # none where there is nothing to be done


TOLD: Mapping[str, Told] = {
    "NO_DATA": Told("Too little was measured to judge."),
    "BALANCED": Told("Nothing stands out."),
    "NORMAL": Told("Nothing stands out."),
    "STALLED": Told("No step is completed any more.", "TraceMLStalled"),
    "INPUT_STRAGGLER": Told(
        "This rank fetches its input slower than the others, and they wait for it.",
        "TraceMLStraggler",
    ),
    "COMPUTE_STRAGGLER": Told(
        "This rank computes slower than the others, and they wait for it.", "TraceMLStraggler"
    ),
    "STRAGGLER": Told(
        "One rank, or another each time, holds up all others beside its phases or in all of them.",
        "TraceMLStraggler",
    ),
    "INPUT_BOUND": Told("All ranks wait for their input.", "TraceMLInputBound"),
    "H2D_BOUND": Told("Copies to the device take long.", "TraceMLH2DBound"),
    "COMM_BOUND": Told("The exchange between the ranks takes long.", "TraceMLCommBound"),
    "LAUNCH_BOUND": Told(
        "The device waits for the CPU to queue work, within compute.", "TraceMLLaunchBound"
    ),
    "WAIT_HEAVY": Told("Much of the step is in no phase.", "TraceMLWaitHeavy"),
    "JITTER": Told("Some steps take far longer than most.", "TraceMLJitter"),
    "COMPUTE_BOUND": Told("The step is its own work: as good as it gets."),
    "HIGH_PRESSURE": Told("The highest peak is close to the limit.", "TraceMLMemoryPressure"),
    "IMBALANCE": Told("One rank needs far more memory than others.", "TraceMLMemoryImbalance"),
    "MEMORY_CREEP": Told("Memory keeps growing.", "TraceMLMemoryCreep"),
    "MEMORY_CREEP_EARLY": Told("Memory grows, by little so far.", "TraceMLMemoryCreep"),
    "VERY_HIGH_GPU_MEMORY": Told("A GPU's memory is almost used up."),
    "HIGH_GPU_MEMORY": Told("Much of a GPU's memory is in use."),
    "HIGH_GPU_TEMPERATURE": Told("A GPU is hot."),
    "GPU_THROTTLED": Told("The clocks of a GPU are held back."),
    "HIGH_GPU_POWER": Told("A GPU draws all the power it may."),
    "LOW_GPU_UTILIZATION": Told("The GPUs have little to do."),
    "MODERATE_GPU_UTILIZATION": Told("The GPUs are not busy all the time."),
    "HIGH_HOST_MEMORY": Told("The host's memory is almost used up."),
    "HIGH_CPU": Told("The CPU is busy."),
    "RESERVED_OVERHANG": Told("Far more memory is reserved than in use."),
    "RANK_GPU_MEMORY_IMBALANCE": Told("One rank reserves more memory than others."),
    "HIGH_RSS": Told("The ranks take much of the host's memory."),
}

TOLD_OF_NODES: Mapping[str, Told] = {
    ACROSS_NODES: Told(
        "This rank is slower than those of other nodes, and they wait for it.",
        "TraceMLStragglerAcrossNodes",
    )
}
EVERY = {**TOLD, **TOLD_OF_NODES}

WITH_RUNBOOK = tuple(state for state, told in EVERY.items() if told.runbook)

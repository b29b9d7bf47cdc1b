"""Every threshold of the rules, each with its default and its reason."""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

MIB = 2.0**20
_ANY = (0.0, float("inf"))
_RATIO = (0.0, 1.0)


def _limit(default: float, doc: str, within: tuple[float, float] = _ANY) -> Any:
    return field(default=default, metadata={"doc": doc, "within": within})


@dataclass(frozen=True, slots=True)
class Policy:
    """Above 0 all of them; ratios are of 1."""

    # Step time. Shares are of the typical step: the median rank's.
    sure_steps: float = _limit(20, "with fewer completed steps nothing is critical")
    floor_seconds: float = _limit(0.001, "shorter times are nobody's problem")
    floor_overheads: float = _limit(5, "nor are times below so many times TraceML's own cost")
    stalled_seconds: float = _limit(60, "STALLED: so long without a completed step, at the least")
    stalled_steps: float = _limit(20, "STALLED: and at least so many typical steps")
    straggler_warning: float = _limit(
        0.10, "INPUT, COMPUTE STRAGGLER, STRAGGLER: a rank's excess over the others", _RATIO
    )
    straggler_critical: float = _limit(0.20, "the same, critical", _RATIO)
    late_ratio: float = _limit(
        0.5, "a straggler: the share of its excess that made it late as well", _RATIO
    )
    chronic_ratio: float = _limit(0.5, "chronic: the share of steps that wait for it", _RATIO)
    input_warning: float = _limit(0.10, "INPUT-BOUND: share of dataloader and h2d", _RATIO)
    input_critical: float = _limit(0.20, "the same, critical", _RATIO)
    h2d_warning: float = _limit(0.10, "H2D-BOUND: share of h2d alone", _RATIO)
    h2d_critical: float = _limit(0.20, "the same, critical", _RATIO)
    comm_warning: float = _limit(0.10, "COMM-BOUND: share of the exchange itself", _RATIO)
    comm_critical: float = _limit(0.20, "the same, critical", _RATIO)
    launch_warning: float = _limit(
        0.20, "LAUNCH-BOUND: share in which the device waits for the CPU, within compute", _RATIO
    )
    launch_critical: float = _limit(0.40, "the same, critical", _RATIO)
    wait_warning: float = _limit(0.10, "WAIT-HEAVY: share of other", _RATIO)
    wait_critical: float = _limit(0.20, "the same, critical", _RATIO)
    jitter_ratio: float = _limit(
        1.5, "JITTER: 95th percentile of the steps over their median", (1.0, float("inf"))
    )
    explained_ratio: float = _limit(
        0.5, "JITTER, passing STRAGGLER: explained if batch sizes account for so much", _RATIO
    )
    contended_cpu: float = _limit(
        0.70, "ranks that compute on the CPU of a host this busy fight for its cores", _RATIO
    )
    contended_factor: float = _limit(
        2,
        "then a passing STRAGGLER has to be so much above its threshold, and COMM-BOUND as well if "
        "they get too little CPU",
        (1.0, float("inf")),
    )
    crowded_cores: float = _limit(0.75, "too little: less than so many cores for the median rank")
    concentrated_ratio: float = _limit(
        0.25, "and so much more of the loss than of the work has to be in one phase", _RATIO
    )
    compute_ratio: float = _limit(0.80, "COMPUTE-BOUND: share of own compute", _RATIO)

    recent_factor: float = _limit(
        1.5,
        "the last quarter of the window alone decides if it is so many times above a threshold",
        (1.0, float("inf")),
    )

    # Step memory. Pressure is of the device's memory; on CPU, of what the processes may use.
    pressure_warning: float = _limit(0.92, "HIGH PRESSURE: the worst peak", _RATIO)
    pressure_critical: float = _limit(0.97, "the same, critical", _RATIO)
    imbalance_warning: float = _limit(0.20, "IMBALANCE: skew of the worst peak")
    imbalance_critical: float = _limit(0.30, "the same, critical")
    imbalance_pressure_warning: float = _limit(0.30, "IMBALANCE: with at least this much", _RATIO)
    imbalance_pressure_critical: float = _limit(0.50, "the same, critical", _RATIO)
    creep_steps: float = _limit(60, "MEMORY CREEP: judged from so many steps on", (20, 1e12))
    creep_ratio: float = _limit(0.05, "MEMORY CREEP: growth over the baseline")
    creep_bytes: float = _limit(64 * MIB, "MEMORY CREEP: and at least so much")
    creep_early_ratio: float = _limit(0.02, "MEMORY CREEP (EARLY): growth over the baseline")
    creep_early_bytes: float = _limit(16 * MIB, "MEMORY CREEP (EARLY): and at least so much")
    creep_sustained_ratio: float = _limit(
        0.25, "MEMORY CREEP: the share of the growth that falls into each half", (0.0, 0.5)
    )
    creep_jump_ratio: float = _limit(
        0.5, "MEMORY CREEP: no more than this of the growth in an eighth of the time", _RATIO
    )
    creep_certainty: float = _limit(
        4.5, "MEMORY CREEP: so surely it rises, in standard deviations of what chance would do"
    )

    # System and process: context, beside the findings above.
    gpu_memory_very_high: float = _limit(0.95, "VERY_HIGH_GPU_MEMORY: in use", _RATIO)
    gpu_memory_high: float = _limit(0.85, "HIGH_GPU_MEMORY: in use", _RATIO)
    gpu_temperature: float = _limit(85, "HIGH_GPU_TEMPERATURE: degrees Celsius")
    gpu_throttled: float = _limit(0.10, "GPU_THROTTLED: share of the samples", _RATIO)
    gpu_clock_behind: float = _limit(
        0.10,
        "GPU_THROTTLED: a cap on the power counts from an SM clock so far below the other ranks' "
        "GPUs on; a COMPUTE STRAGGLER then names it",
        _RATIO,
    )
    gpu_power: float = _limit(0.95, "HIGH_GPU_POWER: of the limit", _RATIO)
    gpu_utilization_low: float = _limit(0.30, "LOW_GPU_UTILIZATION: below it", _RATIO)
    gpu_utilization_moderate: float = _limit(0.70, "MODERATE_GPU_UTILIZATION: below it", _RATIO)
    host_memory: float = _limit(0.90, "HIGH_HOST_MEMORY: in use", _RATIO)
    host_cpu: float = _limit(0.80, "HIGH_CPU: in use", _RATIO)
    process_gpu_memory: float = _limit(0.90, "HIGH_GPU_MEMORY: reserved by a rank", _RATIO)
    overhang_ratio: float = _limit(2.0, "RESERVED_OVERHANG: reserved over allocated")
    overhang_share: float = _limit(0.30, "RESERVED_OVERHANG: and reserved at least", _RATIO)
    rank_gpu_memory_skew: float = _limit(0.20, "RANK_GPU_MEMORY_IMBALANCE: skew of reserved")
    rank_rss: float = _limit(0.80, "HIGH_RSS: of all ranks together, of the host's memory", _RATIO)
    rank_cpu_cores: float = _limit(8, "HIGH_CPU: cores in use by a rank")

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in FIELDS}
        for name, value in values.items():
            _check(name, value, FIELDS[name].metadata["within"])
        for name, value in values.items():
            warning = name.removesuffix("_critical") + "_warning"
            if name.endswith("_critical") and value < getattr(self, warning):
                lower = getattr(self, warning)
                raise ValueError(f"{name} ({value:g}) must not be below {warning} ({lower:g})")
        if self.gpu_utilization_moderate < self.gpu_utilization_low:
            raise ValueError("gpu_utilization_moderate must not be below gpu_utilization_low")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Policy":
        """The defaults but for what is given; ValueError for what makes no sense."""
        for name, value in given.items():
            if isinstance(value, dict):
                raise ValueError(f"there are no sections, such as [{name}]")
            if name not in FIELDS:
                raise ValueError(f"{name} is no threshold")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be a number, not {value!r}")
        return cls(**{name: float(value) for name, value in given.items()})

    def floor(self, overhead_seconds: float | None) -> float:
        """Times below this one count for nothing."""
        return max(self.floor_seconds, self.floor_overheads * (overhead_seconds or 0.0))


def _check(name: str, value: float, within: tuple[float, float]) -> None:
    low, high = within
    if low <= value <= high and 0 < value < float("inf"):
        return
    if high == float("inf"):
        raise ValueError(f"{name} must be {'above 0' if low == 0 else f'at least {low:g}'}")
    raise ValueError(f"{name} must be {low:g} to {high:g}{', but not 0' if low == 0 else ''}")


FIELDS: dict[str, "Field[Any]"] = {each.name: each for each in fields(Policy)}
DEFAULT = Policy()


def documented() -> str:
    """The defaults as a file that `--policy` takes, a comment each."""
    lines = ["# The thresholds of TraceML's diagnoses: change what you like, leave out the rest.\n"]
    for name, each in FIELDS.items():
        value = float(getattr(DEFAULT, name))
        shown = f"{value:.0f}" if value.is_integer() else f"{value:g}"
        lines.append(f"\n# {each.metadata['doc']}\n{name} = {shown}\n")
    return "".join(lines)

"""Process: what each rank's process uses. Context; it never outranks a step's finding."""

from collections.abc import Iterator

from traceml.diagnosis.context import Measured, Rule
from traceml.diagnosis.finding import INFO, PROCESS, WARNING, Diagnosis, Finding
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.verdict import Verdict, conclude
from traceml.snapshot import Snapshot, Statistics


def process(snapshot: Snapshot, statistics: Statistics, policy: Policy) -> Diagnosis:
    """What stands out in the ranks' processes."""
    if not any(rank.cpu_seconds is not None for rank in snapshot.ranks):
        nothing = Finding(PROCESS, "NO_DATA", INFO, "No process has told what it uses.")
        return conclude(PROCESS, (), nothing)
    verdicts = [*_gpu_verdicts(snapshot, statistics, policy), *_host_verdicts(snapshot, policy)]
    normal = Finding(PROCESS, "NORMAL", INFO, "No process uses more than it should.")
    return conclude(PROCESS, verdicts, normal)


def _gpu_verdicts(snapshot: Snapshot, statistics: Statistics, policy: Policy) -> Iterator[Verdict]:
    reserved = statistics.memory_peaks.get("reserved", {})
    allocated = statistics.memory_peaks.get("allocated", {})
    limits = {r.rank: r.memory_limit_bytes for r in snapshot.ranks if r.memory_limit_bytes}
    shares = {rank: peak / limits[rank] for rank, peak in reserved.items() if rank in limits}
    yield Rule(
        PROCESS, "HIGH_GPU_MEMORY", INFO, policy.process_gpu_memory,
        "{who} has reserved {value:.0%} of its device's memory.",
        "See step memory for what is really allocated.",
    ).above(_of(rank, share) for rank, share in shares.items())  # fmt: skip
    yield Rule(
        PROCESS, "RESERVED_OVERHANG", WARNING, policy.overhang_ratio,
        "{who} has reserved {value:.1f} times what it uses: the allocator's memory is fragmented.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad batches to equal sizes.",
    ).above(
        _of(rank, reserved[rank] / allocated[rank])
        for rank, share in shares.items()
        if share >= policy.overhang_share and allocated.get(rank, 0.0) > 0
    )  # fmt: skip
    over = statistics.memory.get("reserved")
    skewed = []
    if over is not None and over.skew_ratio is not None and len(reserved) > 1:
        skewed = [_of(over.worst_rank, over.skew_ratio)]
    yield Rule(
        PROCESS, "RANK_GPU_MEMORY_IMBALANCE", INFO, policy.rank_gpu_memory_skew,
        "{who} has reserved {value:.0%} more memory than the median rank.",
        "Look at what only this rank holds.",
    ).above(skewed)  # fmt: skip


def _host_verdicts(snapshot: Snapshot, policy: Policy) -> Iterator[Verdict]:
    resident = [rank.resident_bytes for rank in snapshot.ranks if rank.resident_bytes]
    size = snapshot.host.memory_size_bytes if snapshot.host is not None else None
    yield Rule(
        PROCESS, "HIGH_RSS", WARNING, policy.rank_rss,
        "{who} hold {value:.0%} of the host's memory.",
        "Fewer DataLoader workers, or less that the processes keep in memory.",
    ).above(
        [Measured(sum(resident) / size, "All ranks together")] if resident and size else []
    )  # fmt: skip
    yield Rule(
        PROCESS, "HIGH_CPU", INFO, policy.rank_cpu_cores,
        "{who} keeps {value:.1f} cores busy.",
        "Set OMP_NUM_THREADS if ranks on one machine fight for its cores.",
    ).above(
        _of(rank.rank, rank.cpu_cores) for rank in snapshot.ranks if rank.cpu_cores is not None
    )  # fmt: skip


def _of(rank: int, value: float) -> Measured:
    return Measured(value, f"Rank {rank}", rank)

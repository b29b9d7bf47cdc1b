"""Process: what each rank's process uses. Context; it never outranks a step's finding."""

from collections.abc import Iterator

from traceml.diagnosis.context import Measured, above
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
    yield above(
        PROCESS, "HIGH_GPU_MEMORY", INFO,
        [Measured(share, f"Rank {rank}", rank) for rank, share in shares.items()],
        policy.process_gpu_memory, "{who} has reserved {value:.0%} of its device's memory.",
        "See step memory for what is really allocated.",
    )  # fmt: skip
    overhang = [
        Measured(reserved[rank] / allocated[rank], f"Rank {rank}", rank)
        for rank, share in shares.items()
        if share >= policy.overhang_share and allocated.get(rank, 0.0) > 0
    ]
    yield above(
        PROCESS, "RESERVED_OVERHANG", WARNING, overhang, policy.overhang_ratio,
        "{who} has reserved {value:.1f} times what it uses: the allocator's memory is fragmented.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad batches to equal sizes.",
    )  # fmt: skip
    over = statistics.memory.get("reserved")
    skew = over.skew_ratio if over is not None and len(reserved) > 1 else None
    yield above(
        PROCESS, "RANK_GPU_MEMORY_IMBALANCE", INFO,
        [] if skew is None or over is None
        else [Measured(skew, f"Rank {over.worst_rank}", over.worst_rank)],
        policy.rank_gpu_memory_skew,
        "{who} has reserved {value:.0%} more memory than the median rank.",
        "Look at what only this rank holds.",
    )  # fmt: skip


def _host_verdicts(snapshot: Snapshot, policy: Policy) -> Iterator[Verdict]:
    resident = [rank.resident_bytes for rank in snapshot.ranks if rank.resident_bytes]
    size = snapshot.host.memory_size_bytes if snapshot.host is not None else None
    total = [Measured(sum(resident) / size, "All ranks together")] if resident and size else []
    yield above(
        PROCESS, "HIGH_RSS", WARNING, total, policy.rank_rss,
        "{who} hold {value:.0%} of the host's memory.",
        "Fewer DataLoader workers, or less that the processes keep in memory.",
    )  # fmt: skip
    cores = [
        Measured(rank.cpu_cores, f"Rank {rank.rank}", rank.rank)
        for rank in snapshot.ranks
        if rank.cpu_cores is not None
    ]
    yield above(
        PROCESS, "HIGH_CPU", INFO, cores, policy.rank_cpu_cores,
        "{who} keeps {value:.1f} cores busy.",
        "Set OMP_NUM_THREADS if ranks on one machine fight for its cores.",
    )  # fmt: skip

"""What the sidecar costs: CPU and memory under load, the end of a run, and scrapes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import scrape
from benchmarks.feed import Ranks
from benchmarks.report import Table, mebibytes, progress
from benchmarks.running import running_sidecar
from traceml.rank.turns import report_seconds

RANKS = 8
BATCH = 312
PACE = 1_250.0  # steps of a rank in a second, when 8 ranks together make 10 000
MARKS = (100_000, 500_000, 1_000_000)  # rank-steps at which memory is read
LONG = 8_000_000  # rank-steps of a run whose end is timed as well


@dataclass(frozen=True, slots=True)
class Size:
    """How much to feed and to scrape."""

    scale: float  # of the rank-steps in MARKS
    paced_seconds: float
    rounds: int


FULL = Size(scale=1.0, paced_seconds=30.0, rounds=100)
QUICK = Size(scale=0.1, paced_seconds=6.0, rounds=15)


@dataclass(frozen=True, slots=True)
class Load:
    """What a sidecar took for a flood of records."""

    rank_steps: int
    feed_seconds: float
    cpu_seconds: float
    memory: dict[int, int]  # resident bytes by rank-steps taken
    bytes_per_record: float
    journal_bytes_per_record: float
    summary_seconds: float
    gone_seconds: float

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_seconds / self.rank_steps * 1e6


def tables(quick: bool) -> Iterator[Table]:
    """The load, then the scrapes."""
    size = QUICK if quick else FULL
    load = _flood([round(mark * size.scale) for mark in MARKS])
    long = _flood([round(LONG * size.scale)])
    yield _load_table(load, long, _paced_share(size.paced_seconds), size)
    yield scrape.table(size.rounds)


def _flood(marks: list[int]) -> Load:
    """As fast as it takes them, up to the last mark."""
    with running_sidecar(RANKS) as sidecar:
        ranks = Ranks(sidecar.endpoint, RANKS)
        wire = ranks.request(0, BATCH).ByteSize() / BATCH
        memory = {0: sidecar.resident_bytes()}
        begin, cpu_begin = time.monotonic(), sidecar.cpu_seconds()
        for mark in marks:
            while ranks.step * RANKS < mark:
                ranks.push(BATCH)
            memory[mark] = sidecar.resident_bytes()
            progress(f"sidecar: {mark} rank-steps taken")
        cpu_end, end = sidecar.cpu_seconds(), time.monotonic()
        journal = sidecar.journal_bytes() / (ranks.step * RANKS)
        ranks.close()
        summary_seconds, gone_seconds = sidecar.finish()
    return Load(
        rank_steps=ranks.step * RANKS,
        feed_seconds=end - begin,
        cpu_seconds=cpu_end - cpu_begin,
        memory=memory,
        bytes_per_record=wire,
        journal_bytes_per_record=journal,
        summary_seconds=summary_seconds,
        gone_seconds=gone_seconds,
    )


def _paced_share(seconds: float) -> tuple[float, float]:
    """Share of a core at about 10 000 rank-steps a second; and that rate as it was."""
    progress(f"sidecar: 10 000 rank-steps a second for {seconds:.0f} s")
    with running_sidecar(RANKS) as sidecar:
        ranks = Ranks(sidecar.endpoint, RANKS)
        ranks.push_for(1.0, PACE)
        first, begin, cpu_begin = ranks.step, time.monotonic(), sidecar.cpu_seconds()
        ranks.push_for(seconds, PACE)
        took = time.monotonic() - begin
        share = (sidecar.cpu_seconds() - cpu_begin) / took
        ranks.close()
        return share, (ranks.step - first) * RANKS / took


def _load_table(load: Load, long: Load, paced: tuple[float, float], size: Size) -> Table:
    share, rate = paced
    how = (
        f"A sidecar process as `traceml run` starts it, fed by {RANKS} simulated ranks over its "
        f"unix socket, each with its own gRPC channel and one call of {BATCH} records in flight. "
        f"First {load.rank_steps} rank-steps as fast as it takes them, then for "
        f"{size.paced_seconds:.0f} s as often as real senders, and in turn "
        f"({1 / report_seconds(RANKS):.0f} batches a rank and second). CPU is user and system time "
        "of the process, snapshots and all; memory is its resident set; the end is timed from the "
        "launcher's word to the time stamp of `final_summary.html`, the last of its files, and to "
        "the end of the process. The longer run is another one, of which only memory and end are "
        "told."
    )
    rows = [
        ["CPU per million rank-steps, flooded", f"{load.cpu_per_million:.2f} s"],
        ["rank-steps per second, flooded", f"{load.rank_steps / load.feed_seconds:.0f}"],
        [f"share of a core at {rate:.0f} rank-steps/s", f"{share:.1%}"],
        *(
            [f"resident after {taken} rank-steps", mebibytes(resident)]
            for taken, resident in {**load.memory, long.rank_steps: _last(long)}.items()
        ),
        *(
            [f"end of a run of {run.rank_steps // RANKS} steps to {what}", f"{seconds:.3f} s"]
            for run in (load, long)
            for what, seconds in (
                ("summary written", run.summary_seconds),
                ("process gone", run.gone_seconds),
            )
        ),
        ["bytes per record on the wire (serialised request)", f"{load.bytes_per_record:.1f}"],
        [
            "bytes per record in the journal, checkpoints and all",
            f"{load.journal_bytes_per_record:.1f}",
        ],
    ]
    return Table("Sidecar under load", how, ("what", "value"), rows)


def _last(load: Load) -> int:
    return list(load.memory.values())[-1]

"""Completed steps for other tools: one row a rank and step, and the CSV of such rows."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

from traceml.wire.columns import PHASES

_NS = 1e9
_TIMES = ("step", *PHASES, "overhead")
AMOUNTS = ("resident_bytes", "allocated_bytes", "reserved_bytes", "samples", "elements")
COLUMNS = (
    "attempt", "step", "rank", "tags", "clock", "ended_seconds",
    *(f"{name}_seconds" for name in _TIMES), *AMOUNTS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of one rank. What was not measured is not in `values`."""

    attempt: int  # from 0; steps start over with each
    step: int
    rank: int
    tags: tuple[str, ...]
    clock: str  # whose times these are: cpu or device
    ended_ns: float  # on the node's monotonic clock
    values: Mapping[str, float]  # by the names of the record's columns


def write_csv(rows: Iterable[StepRow], into: TextIO) -> None:
    """Times in seconds, memory in bytes; an empty cell was not measured."""
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        times = (_seconds(row.values.get(f"{name}_ns")) for name in _TIMES)
        amounts = (_amount(row.values.get(name)) for name in AMOUNTS)
        about = (row.attempt, row.step, row.rank, "+".join(row.tags), row.clock)
        writer.writerow((*about, f"{row.ended_ns / _NS:.9f}", *times, *amounts))


def _seconds(ns: float | None) -> str:
    return "" if ns is None else f"{ns / _NS:.9f}"


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"

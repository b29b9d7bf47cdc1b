"""Steps for other tools: the trace nests and adds up, the table can be read."""

import csv
import io
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.report.perfetto import layout, write_trace
from traceml.report.rows import COLUMNS, StepRow, write_csv
from traceml.wire.columns import MARKED, PHASES

MS = 1e6
Values = Mapping[str, float]

# Forward and backward took turns: forward's last end is late, its time more than the gap.
TURNS = {"forward_end_ns": 12 * MS, "forward_ns": 16 * MS, "backward_ns": 14 * MS}


def row(
    step: int = 0, rank: int = 0, ended_ms: float | None = None, values: Values | None = None
) -> StepRow:
    """A step of 43 ms, one after the other, in which each phase ran once."""
    measured = {
        "step_ns": 43 * MS, "dataloader_ns": 2 * MS, "forward_ns": 10 * MS, "backward_ns": 20 * MS,
        "optimizer_ns": 5 * MS, "collective_wait_ns": 4 * MS, "other_ns": 2 * MS,
        "dataloader_end_ns": 40 * MS, "forward_end_ns": 30 * MS, "backward_end_ns": 10 * MS,
        "optimizer_end_ns": 0.0, "resident_bytes": 2.0**30, "samples": 32.0,
    }  # fmt: skip
    ended = 43.0 * (step + 1) if ended_ms is None else ended_ms
    return StepRow(0, step, rank, ("eval",) if step == 1 else (), "cpu", ended * MS,
                   {**measured, **(values or {})})  # fmt: skip


def trace_of(*rows: StepRow) -> list[dict[str, Any]]:
    into = io.StringIO()
    write_trace(rows, "demo", into)
    document = json.loads(into.getvalue())
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def slices(events: list[dict[str, Any]], kind: str, rank: int = 0) -> list[dict[str, Any]]:
    return [e for e in events if e.get("cat") == kind and e["tid"] == rank + 1]


def test_each_rank_has_a_track_with_its_name() -> None:
    events = trace_of(row(rank=0), row(rank=3))
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {1: "rank 0", 4: "rank 3"}
    assert next(e for e in events if e["name"] == "process_name")["args"]["name"] == "TraceML demo"


def test_a_phase_that_ran_once_lies_where_it_was() -> None:
    phases = {e["name"]: (e["ts"], e["dur"]) for e in slices(trace_of(row()), "phase")}
    assert phases == {
        "dataloader": (1e3, 2e3),
        "forward": (3e3, 10e3),
        "backward": (13e3, 20e3),
        "collective_wait": (33e3, 4e3),
        "optimizer": (38e3, 5e3),
    }


def test_phases_that_ran_several_times_are_drawn_in_order_and_in_full() -> None:
    placed = layout(row(values=TURNS).values)
    assert [phase for phase, _, _ in placed][:4] == [
        "dataloader", "forward", "backward", "collective_wait",
    ]  # fmt: skip
    lengths = {phase: end - begin for phase, begin, end in placed}
    assert (lengths["forward"], lengths["backward"]) == pytest.approx((16 * MS, 14 * MS))
    assert all(end == later for (_, _, end), (_, later, _) in pairwise(placed))


milliseconds = st.floats(0.0, 50.0)


@given(st.lists(st.tuples(*[milliseconds] * (len(PHASES) + len(MARKED))), min_size=1, max_size=8))
def test_slices_of_a_track_nest_whatever_was_measured(
    told: list[tuple[float, ...]],
) -> None:
    rows = []
    for step, figures in enumerate(told):
        values = {f"{p}_ns": ms * MS for p, ms in zip(PHASES, figures, strict=False)}
        ends = zip(MARKED, figures[len(PHASES) :], strict=True)
        values |= {f"{phase}_end_ns": ms * MS for phase, ms in ends}
        values["step_ns"] = sum(figures[: len(PHASES)]) * MS
        rows.append(row(step, ended_ms=40.0 * (step + 1), values=values))
    events = trace_of(*rows)
    steps, phases = slices(events, "step"), slices(events, "phase")
    for before, after in pairwise(steps):
        assert after["ts"] >= before["ts"] + before["dur"] - 0.01
    last = -1.0
    for phase in phases:
        assert phase["ts"] >= last - 0.01
        last = phase["ts"] + phase["dur"]
        assert any(
            of["ts"] - 0.01 <= phase["ts"] and last <= of["ts"] + of["dur"] + 0.01 for of in steps
        )


def test_a_step_tells_its_tags_and_memory() -> None:
    (step,) = slices(trace_of(row(1)), "step")
    assert step["name"] == "step 1"
    assert step["args"] == {
        "attempt": 0, "tags": "eval", "clock": "cpu", "resident_bytes": 2**30, "samples": 32,
    }  # fmt: skip


def test_the_table_has_a_row_for_each_rank_and_step() -> None:
    into = io.StringIO()
    write_csv([row(0, 0), row(0, 1), row(1, 0)], into)
    rows = list(csv.DictReader(io.StringIO(into.getvalue())))
    assert tuple(rows[0]) == COLUMNS
    assert [(of["step"], of["rank"], of["tags"]) for of in rows] == [
        ("0", "0", ""), ("0", "1", ""), ("1", "0", "eval"),
    ]  # fmt: skip
    assert float(rows[0]["backward_seconds"]) == pytest.approx(0.020)
    assert float(rows[2]["ended_seconds"]) == pytest.approx(0.086)
    assert rows[0]["h2d_seconds"] == rows[0]["allocated_bytes"] == ""
    assert rows[0]["resident_bytes"] == str(2**30)

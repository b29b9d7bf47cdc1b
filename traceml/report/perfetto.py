"""Completed steps as a trace for ui.perfetto.dev or chrome://tracing: a track a rank.

How long a phase took is exact. Where in the step it lies is exact where it ran once;
where it ran several times (gradient accumulation) its pieces are drawn as one, in order.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from traceml.report.rows import AMOUNTS, StepRow
from traceml.wire.columns import MARKED, PHASES

_PROCESS = 1
_SLACK = 1e-6  # of a step: times come as float32

Slice = tuple[str, float, float]  # phase, begin, end


def write_trace(rows: Iterable[StepRow], run: str, into: TextIO) -> None:
    """The trace in the JSON form that Chrome has brought up and Perfetto reads."""
    into.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
    into.write(json.dumps(_name("process_name", f"TraceML {run}")))
    for event in _events(rows):
        into.write(",\n")
        into.write(json.dumps(event))
    into.write("\n]}\n")


def _events(rows: Iterable[StepRow]) -> Iterator[dict[str, Any]]:
    done: dict[int, float] = {}  # rank: where its track ends so far
    for row in rows:
        if row.rank not in done:
            yield _name("thread_name", f"rank {row.rank}", row.rank)
            yield _name("thread_sort_index", row.rank, row.rank)
        length = row.values["step_ns"]
        # Rounding, or the device's own clock, must not let slices of a track overlap.
        begin = max(row.ended_ns - length, done.get(row.rank, 0.0))
        end = done[row.rank] = begin + length
        yield _slice(row, f"step {row.step}", "step", begin, end, _about(row))
        for phase, since, until in layout(row.values):
            since, until = max(begin, end + since), min(end, end + until)
            if until > since:
                yield _slice(row, phase, "phase", since, until)


def layout(values: Mapping[str, float]) -> list[Slice]:
    """Where the phases of a step lie, in ns from its end, one behind the other."""
    length = values["step_ns"]
    marked = sorted(_marked(values), key=lambda each: each[2])
    placed = _with_wait(marked, values.get("collective_wait_ns", 0.0))
    begins = [-length * (1 + _SLACK), *(until - length * _SLACK for _, _, until in placed)]
    if all(since >= least for (_, since, _), least in zip(placed, begins, strict=False)):
        return placed
    return _in_a_row([phase for phase, _, _ in placed], values)


def _marked(values: Mapping[str, float]) -> Iterator[Slice]:
    for phase in MARKED:
        taken, before_end = values.get(f"{phase}_ns"), values.get(f"{phase}_end_ns")
        if taken and before_end is not None:
            yield phase, -before_end - taken, -before_end


def _with_wait(marked: list[Slice], wait: float) -> list[Slice]:
    """The waiting follows the gradients, or what came last if there are none."""
    if not wait:
        return marked
    phases = [phase for phase, _, _ in marked]
    place = phases.index("backward") + 1 if "backward" in phases else len(marked)
    since = marked[place - 1][2] if place else -wait
    return [*marked[:place], ("collective_wait", since, since + wait), *marked[place:]]


def _in_a_row(order: list[str], values: Mapping[str, float]) -> list[Slice]:
    drawn, at = [], -values["step_ns"]
    for phase in (*order, *(phase for phase in PHASES if phase not in order)):
        taken = values.get(f"{phase}_ns", 0.0)
        drawn.append((phase, at, at + taken))
        at += taken
    return drawn


def _slice(
    row: StepRow, name: str, kind: str, begin: float, end: float, about: Any = None
) -> dict[str, Any]:
    event = {
        "name": name, "cat": kind, "ph": "X", "pid": _PROCESS, "tid": row.rank + 1,
        "ts": round(begin / 1e3, 3), "dur": round((end - begin) / 1e3, 3),
    }  # fmt: skip
    return event if about is None else {**event, "args": about}


def _about(row: StepRow) -> dict[str, Any]:
    kept = {name: round(row.values[name]) for name in AMOUNTS if name in row.values}
    return {"attempt": row.attempt, "tags": "+".join(row.tags), "clock": row.clock, **kept}


def _name(what: str, name: object, rank: int | None = None) -> dict[str, Any]:
    key = "sort_index" if what.endswith("sort_index") else "name"
    track = {} if rank is None else {"tid": rank + 1}
    return {"name": what, "ph": "M", "pid": _PROCESS, **track, "args": {key: name}}

"""The summary as text: what is printed when a run ends, and kept beside its JSON."""

import textwrap

from traceml.report import units
from traceml.report.table import phase_table, rank_table
from traceml.snapshot import Run, Snapshot, Steps, Telemetry

WIDTH = 100
_NAME_WIDTH = 45  # the title also says how the run ended


def summary_text(snapshot: Snapshot) -> str:
    """The run on one screen, at most 100 columns wide."""
    run, whole = snapshot.run, snapshot.whole
    lines = [_title(run), _setting(snapshot), _steps(snapshot.steps, whole.steps), ""]
    lines += phase_table(whole)
    if len(whole.ranks) > 1:
        lines += ["", *rank_table(whole)]
    if whole.memory is not None:
        worst = f"{units.bytes_(whole.memory.worst)} on r{whole.memory.worst_rank}"
        lines += ["", f"Peak resident memory {worst}, median {units.bytes_(whole.memory.median)}"]
    lines.append(_telemetry(snapshot.telemetry))
    for note in snapshot.notes:
        lines += textwrap.wrap(f"Note: {note}", WIDTH, subsequent_indent="  ")
    return "".join(f"{line}\n" for line in lines)


def _title(run: Run) -> str:
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    name = run.name if len(run.name) <= _NAME_WIDTH else run.name[: _NAME_WIDTH - 3] + "..."
    return f"TraceML  {name}  {run.state}{code}  after {units.seconds(run.duration_seconds)}"


def _setting(snapshot: Snapshot) -> str:
    run = snapshot.run
    if run.world_size is None:
        return "No rank has reported: is the loop wrapped in trace_step(model)?"
    ranks = "1 rank" if run.world_size == 1 else f"{run.world_size} ranks"
    return f"{ranks} ({run.strategy}) on {run.device}, torch {run.torch}, python {run.python}"


def _steps(steps: Steps, judged: int) -> str:
    left_out = ", ".join(f"{count} {tag}" for tag, count in steps.excluded.items() if count)
    parts = [f"{steps.completed} steps completed, {judged} in the figures below"]
    if left_out:
        parts.append(f"left out: {left_out}")
    lost = sum(steps.incomplete.values())
    if lost:
        parts.append(f"{lost} incomplete")
    return "; ".join(parts)


def _telemetry(telemetry: Telemetry) -> str:
    cost = units.seconds(telemetry.overhead_seconds_per_step)
    return (
        f"TraceML itself: {cost} a step on the training thread, "
        f"{telemetry.records_dropped} records lost"
    )

"""The summary as text: what is printed when a run ends, and kept beside its JSON."""

import textwrap
from collections.abc import Iterator
from datetime import datetime, timezone

from traceml import units
from traceml.diagnosis.finding import DOMAINS, INFO, Finding, primary, title
from traceml.report.table import phase_table, rank_table
from traceml.snapshot import Run, Snapshot, Steps

WIDTH = 100
_PLAIN = ("NO_DATA", "NORMAL", "BALANCED", "COMPUTE_BOUND")  # nothing to add to the first finding
_STOOD_SECONDS = 5.0  # a run without a step for so long stood still when it was interrupted
_NAME_WIDTH = 45  # the title also says how the run ended


def summary_text(snapshot: Snapshot) -> str:
    """The run on one screen, at most 100 columns wide."""
    run, whole = snapshot.run, snapshot.whole
    lines = [_title(run), _setting(snapshot)]
    if run.world_size is not None:
        lines += [_steps(snapshot.steps, whole.steps), "", *verdict_lines(snapshot), ""]
        lines += phase_table(whole)
        if len(whole.ranks) > 1:
            lines += ["", *rank_table(whole)]
        lines += ["", *_facts(snapshot)]
    notes = (f"Note: {note}" for note in snapshot.notes)
    for note in (*_left_behind(snapshot), *notes, *_covers(snapshot)):
        lines += textwrap.wrap(note, WIDTH, subsequent_indent="  ")
    return "".join(f"{line}\n" for line in lines)


def verdict_lines(snapshot: Snapshot) -> Iterator[str]:
    """What is to be said of the run: the primary finding, why, what next; then all others."""
    first = primary(snapshot.whole_diagnoses)
    yield _headline(first)
    yield from _wrapped(first.summary, "  ")
    if first.action:
        yield from _wrapped(f"Next: {first.action}", "  ")
    for domain in DOMAINS:
        for finding in snapshot.whole_diagnoses[domain].findings:
            if finding is not first and finding.state not in _PLAIN:
                alarms = finding.severity != INFO and finding.action
                advice = f" Next: {finding.action}" if alarms else ""
                yield from _wrapped(f"Also {_headline(finding)}: {finding.summary}{advice}", "")


def _headline(finding: Finding) -> str:
    rank = "" if finding.rank is None else f"rank {finding.rank}"
    where = ", ".join(part for part in (rank, finding.phase) if part)
    passing = ", passing" if finding.chronic is False else ""
    unsure = f", {finding.confidence} confidence" if finding.confidence != "high" else ""
    what = f"{title(finding.state)} ({finding.severity}{passing}{unsure})"
    return f"{what}  {where}".rstrip()


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _title(run: Run) -> str:
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    name = run.name if len(run.name) <= _NAME_WIDTH else run.name[: _NAME_WIDTH - 3] + "..."
    return f"TraceML  {name}  {run.state}{code}  after {units.seconds(run.duration_seconds)}"


def _setting(snapshot: Snapshot) -> str:
    run = snapshot.run
    if run.world_size is None:
        return "No rank has reported"
    ranks = _count(run.world_size, "rank")
    if run.nnodes is not None and run.nnodes > 1:
        ranks = f"this node's {len(snapshot.ranks)} of {ranks}"
    return f"{ranks} ({run.strategy}) on {run.device}, torch {run.torch}, python {run.python}"


def _steps(steps: Steps, judged: int) -> str:
    left_out = ", ".join(f"{count} {tag}" for tag, count in steps.excluded.items() if count)
    parts = [f"{_count(steps.completed, 'step')} completed, {judged} in the figures below"]
    if left_out:
        parts.append(f"left out: {left_out}")
    lost = sum(steps.incomplete.values())
    if lost:
        parts.append(f"{lost} incomplete")
    return "; ".join(parts)


def _facts(snapshot: Snapshot) -> Iterator[str]:
    quantiles = snapshot.steps.quantiles_seconds
    if quantiles:
        spans = (f"{name} {units.seconds(value)}" for name, value in quantiles.items())
        yield f"Steps {', '.join(spans)}"
    for kind, memory in snapshot.whole.memory.items():
        name = "resident" if kind == "rss" else kind
        worst = f"{units.bytes_(memory.worst)} on r{memory.worst_rank}"
        median = f", median {units.bytes_(memory.median)}" if len(snapshot.ranks) > 1 else ""
        yield f"Peak {name} memory {worst}{median}"
    yield from _stragglers(snapshot)
    telemetry = snapshot.telemetry
    cost = units.seconds(telemetry.overhead_seconds_per_step)
    lost = f"{_count(sum(telemetry.records_dropped.values()), 'record')} lost"
    if telemetry.records_dropped:
        lost += f" ({', '.join(f'{n} {why}' for why, n in telemetry.records_dropped.items())})"
    restarts = telemetry.sidecar_restarts
    again = f", its sidecar restarted {_count(restarts, 'time')}" if restarts else ""
    yield f"TraceML itself: {cost} a step on the training thread, {lost}{again}"


def _stragglers(snapshot: Snapshot) -> Iterator[str]:
    """What the run has cost for ranks that others waited for."""
    total = sum(rank.all_lost_seconds for rank in snapshot.ranks)
    if not total:
        return
    most = max(snapshot.ranks, key=lambda rank: rank.all_lost_seconds)
    phase = max(most.lost_seconds, key=most.lost_seconds.__getitem__)
    yield (
        f"Waited for stragglers: {units.seconds(total)} in all, "
        f"{units.seconds(most.all_lost_seconds)} of it for r{most.rank}, most in {phase}"
    )


def _left_behind(snapshot: Snapshot) -> Iterator[str]:
    """Where ranks were last seen that did not say goodbye."""
    silent = {absence.rank for absence in snapshot.absent}
    cut_off = snapshot.run.state in ("failed", "interrupted")
    idle = snapshot.idle_seconds or 0.0
    stood = snapshot.run.state == "interrupted" and idle >= _STOOD_SECONDS
    gone = [
        rank
        for rank in snapshot.ranks
        if rank.rank in silent or (cut_off and not rank.parted) or stood
    ]
    seen = [f"r{rank.rank} in step {rank.step}, {rank.phase or 'starting'}" for rank in gone]
    if seen:
        when = "When it was interrupted" if snapshot.run.state == "interrupted" else "Last heard of"
        after = f", {units.seconds(idle)} after the last step" if stood else ""
        yield f"{when}{after}: {'; '.join(seen)}"
    never = [f"r{absence.rank}" for absence in snapshot.absent if absence.step is None]
    if never:
        yield f"Never heard of: {', '.join(never)}"


def _covers(snapshot: Snapshot) -> Iterator[str]:
    """How much of the run this tells, where it was rebuilt from the journal."""
    coverage = snapshot.coverage
    if coverage is None:
        return
    if coverage.whole:
        yield "Rebuilt from the journal: covers the whole run."
        return
    until = datetime.fromtimestamp(coverage.until, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = [f"Rebuilt from the journal: covers the run up to {until}"]
    if coverage.unread_bytes and not coverage.problems:
        parts.append(f"{coverage.unread_bytes} bytes could not be read")
    yield "; ".join((*parts, *coverage.problems)) + "."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

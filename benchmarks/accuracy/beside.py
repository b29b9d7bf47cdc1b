"""The same faults under the peer: what each tool's summary says of a whole run."""

import json
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy.recorded import RUN_NAME, Recording
from benchmarks.accuracy.recording import WORKLOAD, record
from benchmarks.accuracy.schedule import ALL, PLACES, ROTATING, Schedule, Segment
from benchmarks.accuracy.truth import Verdict, truth_of
from benchmarks.peer_venv import PEER, peer_venv
from benchmarks.processes import run
from benchmarks.report import Table, progress

_STEPS = 150

_HOW = (
    "Runs of two gloo ranks, the same script in both columns: a few healthy steps, then the fault "
    f"to the end. What the primary diagnosis of each tool's final_summary.json says; {PEER} with "
    "its defaults, in an environment of its own, and with its own step around the loop's body."
)


def tables(quick: bool) -> Iterator[Table]:
    """One row for each kind of fault."""
    venv = peer_venv()
    rows = [_row(schedule, venv) for schedule in _schedules((1.5,) if quick else (0.4, 1.5))]
    yield Table("Beside the peer", _HOW, ("planted", "expected", "ours", "the peer's"), rows)


def _schedules(delays: tuple[float, ...]) -> Iterator[Schedule]:
    segments = [Segment(_STEPS)]
    for delay, place in product(delays, PLACES[:-1]):
        segments.append(Segment(_STEPS, place, 1, delay))
    for delay, place in product(delays, PLACES):
        segments.append(Segment(_STEPS, place, ALL, delay))
    segments += [Segment(_STEPS, "forward", ROTATING, delay) for delay in delays]
    for number, segment in enumerate(segments):
        yield Schedule(f"beside-{number:02}", 2, (segment,))


def _row(schedule: Schedule, venv: Path) -> list[str]:
    (segment,) = schedule.segments
    with tempfile.TemporaryDirectory() as name:
        progress(f"accuracy-peer: {segment.label}, ours")
        ours = record(schedule, Path(name)).summary()["primary_diagnosis"]
        progress(f"accuracy-peer: {segment.label}, the peer")
        theirs = _run_peer(replace(schedule, name="peer"), Path(name), venv)
    said = Verdict(ours["state"], ours["severity"], ours.get("rank"), ours.get("phase"))
    expected = truth_of(segment)
    return [segment.label, str(expected or "nothing"), f"{said} ({said.severity})", _shown(theirs)]


def _run_peer(schedule: Schedule, folder: Path, venv: Path) -> dict[str, Any]:
    """Its primary diagnosis, and the ranks that its section on steps names."""
    recording = Recording(folder / schedule.name)
    recording.folder.mkdir()
    recording.schedule_file.write_text(schedule.to_json(), encoding="utf-8")
    flags = ["--nproc-per-node", str(schedule.world_size), "--run-name", RUN_NAME]
    flags += ["--aggregator-port", str(_free_port()), "--master-port", str(_free_port())]
    flags += ["--logs-dir", str(recording.folder)]
    told = ["--schedule", str(recording.schedule_file), "--out", str(recording.measured_file)]
    launcher = [str(venv / "bin" / "traceml"), "run", str(WORKLOAD)]
    command = [*launcher, *flags, "--args", *told, "--peer"]
    run(command, recording.folder / "output.txt", "accuracy-peer")
    (summary,) = recording.folder.rglob("final_summary.json")
    document = json.loads(summary.read_text(encoding="utf-8"))
    ranks = (document.get("step_time", {}).get("diagnosis") or {}).get("ranks")
    return {**(document.get("primary_diagnosis") or {}), "ranks": ranks}


def _shown(said: dict[str, Any]) -> str:
    phase = (said.get("evidence") or {}).get("phase") or ""
    ranks = "".join(f" r{rank}" for rank in said.get("ranks") or ())
    return f"{said.get('kind', 'nothing')}{ranks} {phase}".strip() + f" ({said.get('severity')})"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

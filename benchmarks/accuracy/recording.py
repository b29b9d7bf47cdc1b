"""Runs a schedule under `traceml run`, and keeps what it leaves."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from benchmarks.accuracy.recorded import RUN_NAME, Recording
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.truth import Verdict
from benchmarks.machine import load
from benchmarks.processes import ROOT, run
from benchmarks.report import progress

WORKLOAD = Path(__file__).parent / "workload.py"
_STALLED_SECONDS = 5
_DEADLINE_SECONDS = 60.0  # for a stall to be told, the run's own start included
_STALL = re.compile(r'traceml_diagnosis_info\{[^}]*domain="step_time"[^}]*\} 1')
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def record(schedule: Schedule, folder: Path) -> Recording:
    """Run it to its end, or, if it has none, until it is found to stand still."""
    recording = Recording(folder.resolve() / schedule.name)
    recording.folder.mkdir(parents=True)
    recording.schedule_file.write_text(schedule.to_json(), encoding="utf-8")
    recording.load_file.write_text(load(), encoding="utf-8")
    command = _command(recording)
    if schedule.is_stuck:
        _record_stall(recording, command)
    else:
        run(command, recording.folder / "output.txt", f"accuracy: {schedule.name}")
    return recording


def _command(recording: Recording) -> list[str]:
    flags = ["--logs-dir", str(recording.folder), "--run-name", RUN_NAME]
    flags += ["--metrics-port", "0", "--linger", "0"]
    flags += ["--nproc-per-node", str(recording.schedule.world_size)]
    if recording.schedule.is_stuck:
        policy = recording.folder / "policy.toml"
        policy.write_text(f"stalled_seconds = {_STALLED_SECONDS}\n", encoding="utf-8")
        flags += ["--policy", str(policy)]
    told = ["--schedule", str(recording.schedule_file), "--out", str(recording.measured_file)]
    return [sys.executable, "-m", "traceml", "run", *flags, str(WORKLOAD), "--", *told]


def _record_stall(recording: Recording, command: Sequence[str]) -> None:
    with (recording.folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            cwd=recording.folder,
        )
        try:
            _watch(recording)
        finally:
            _end(process.pid)
            process.wait()


def _watch(recording: Recording) -> None:
    """Wait for the run to be called stalled, and write down how."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.5)
        with suppress(OSError, LookupError, ValueError):
            verdict = _said_now(recording)
            if verdict is not None and verdict.state == "STALLED":
                document = {"verdict": asdict(verdict)}
                recording.stall_file.write_text(json.dumps(document), encoding="utf-8")
                return
    progress(f"accuracy: {recording.schedule.name}: no stall was told")


def _said_now(recording: Recording) -> Verdict | None:
    announced = json.loads((recording.run_folder / "sidecar.json").read_text(encoding="utf-8"))
    with urllib.request.urlopen(announced["metrics"], timeout=5) as answer:
        series = _STALL.search(answer.read().decode())
    if series is None:
        return None
    labels = dict(_LABEL.findall(series.group()))
    rank = int(labels["rank"]) if labels.get("rank") else None
    return Verdict(labels["state"], labels["severity"], rank, labels.get("phase") or None)


def _end(pid: int) -> None:
    """End a run that stands still, with all its processes; a stopped one takes no other signal."""
    with suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(pid)
        for process in [launcher, *launcher.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

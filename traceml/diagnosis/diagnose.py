"""All domains at both scopes: the picture of a run, with what is to be said of it."""

from dataclasses import replace

from traceml.diagnosis.finding import (
    PROCESS,
    SEVERITIES,
    STEP_MEMORY,
    STEP_TIME,
    SYSTEM,
    Diagnoses,
    Diagnosis,
)
from traceml.diagnosis.gpu import in_use
from traceml.diagnosis.launch import explanation
from traceml.diagnosis.memory import step_memory
from traceml.diagnosis.policy import Policy
from traceml.diagnosis.process import process
from traceml.diagnosis.step_time import step_time
from traceml.diagnosis.system import system
from traceml.snapshot import HostUse, Snapshot, Statistics


def diagnosed(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The same picture with its diagnoses."""
    lately = _diagnoses(snapshot, snapshot.window, snapshot.host_window, policy)
    recent = step_time(snapshot, snapshot.recent, snapshot.host_window, policy)
    return replace(
        snapshot,
        window_diagnoses={**lately, STEP_TIME: _sooner(lately[STEP_TIME], recent, policy)},
        whole_diagnoses=_diagnoses(snapshot, snapshot.whole, snapshot.host_whole, policy),
    )


def _sooner(window: Diagnosis, recent: Diagnosis, policy: Policy) -> Diagnosis:
    """A fault that has just begun is not yet much of the window: what is clear need not wait.

    Whether imbalance goes round shows in many steps only.
    """
    new = recent.primary
    score = recent.scores.get(new.state, 0.0) / policy.recent_factor
    is_graver = SEVERITIES.index(new.severity) > SEVERITIES.index(window.primary.severity)
    if not is_graver or new.phase is None or score < 1:
        return window
    old = (finding for finding in window.findings if finding.state != new.state)
    return Diagnosis(
        findings=(new, *old),
        scores={**window.scores, new.state: score},
    )


def _diagnoses(
    snapshot: Snapshot, statistics: Statistics, host: HostUse, policy: Policy
) -> Diagnoses:
    steps = step_time(snapshot, statistics, host, policy)
    return {
        STEP_TIME: steps,
        STEP_MEMORY: step_memory(snapshot, statistics, policy),
        SYSTEM: system(in_use(host, snapshot.ranks), policy, explanation(steps)),
        PROCESS: process(snapshot, statistics, policy),
    }

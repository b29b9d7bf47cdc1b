"""Runs whose names and notes are out for trouble."""

from dataclasses import replace

from tests.builders import run_of
from traceml.report.document import Summary
from traceml.report.summary import summarized
from traceml.snapshot import Snapshot

TROUBLE = "</title><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&|`*_"
OUTSIDE = "http://attacker.invalid/x.png"


def hostile_run() -> Snapshot:
    """Two ranks; everything that a user or his machine may name is trouble."""
    snapshot = run_of(2, steps=50)
    run = replace(
        snapshot.run, name=TROUBLE, id=TROUBLE, device=TROUBLE, strategy=TROUBLE, torch=TROUBLE,
        command=("traceml", TROUBLE, f"<img src={OUTSIDE}>", "\udcff\x00\x1b[31m.py"),
    )  # fmt: skip
    ranks = tuple(replace(rank, host=TROUBLE, phase=TROUBLE) for rank in snapshot.ranks)
    return replace(snapshot, run=run, ranks=ranks, notes=(TROUBLE, "\x1b]0;owned\x07"))


def hostile_summary() -> Summary:
    return summarized(hostile_run())

"""Runs and ranks that are gone, telemetry that is lost: when each alert fires, and when not."""

from tests.publish.rules.promtool import Case, Fired
from tests.publish.rules.scrapes import (
    ENDED,
    constant,
    expected,
    growing,
    info,
    one,
    rank,
    score,
    state,
    until,
)

# The last step was completed after 4 minutes.
STOOD = {**state(), **one("traceml_last_step_timestamp_seconds", constant(240))}
SAYS_SO = score("step_time", "STALLED", 20, severity=2)

STALLS = (
    Case(
        "TraceMLStalled",
        "with the rank and phase that are waited for",
        {**STOOD, **SAYS_SO, **info("step_time", "STALLED", "critical", "1", "backward")},
        (
            Fired(
                "critical",
                "Run demo stands still: rank 1 in backward is waited for",
                "No step was completed for 20m 0s. Next: look at the process of rank 1: `py-spy "
                "dump --pid` shows where it is, `dmesg` whether it was killed.",
                {"rank": "1", "phase": "backward"},
            ),
        ),
    ),
    Case(
        "TraceMLStalled",
        "of several nodes the one that knows the rank speaks",
        {
            **STOOD,
            **SAYS_SO,
            **info("step_time", "STALLED", "critical", "", "collective_wait"),
            **{
                series.replace('"a:1"', '"b:1"'): value
                for series, value in {
                    **STOOD,
                    **SAYS_SO,
                    **info("step_time", "STALLED", "critical", "12", "dataloader"),
                }.items()
            },
        },
        (
            Fired(
                "critical",
                "Run demo stands still: rank 12 in dataloader is waited for",
                "No step was completed for 20m 0s. Next: look at the process of rank 12: `py-spy "
                "dump --pid` shows where it is, `dmesg` whether it was killed.",
                {"rank": "12", "phase": "dataloader"},
            ),
        ),
    ),
    Case(
        "TraceMLStalled",
        "with nobody to blame",
        {**STOOD, **SAYS_SO, **info("step_time", "STALLED", "critical", "", "collective_wait")},
        (
            Fired(
                "critical",
                "Run demo stands still",
                "No step was completed for 20m 0s. Next: all ranks wait for an exchange that does "
                "not end: look at the network, and for ranks that call different collectives.",
            ),
        ),
    ),
    Case("TraceMLStalled", "a long evaluation: the sidecar abstains", STOOD),
    Case("TraceMLStalled", "for 4 minutes only", {**STOOD, **SAYS_SO}, minutes=8),
    Case("TraceMLStalled", "ended", {**STOOD, **SAYS_SO, **state(ENDED)}),
)

THERE = {**state(), **rank(0), **rank(1), **expected(2, constant(2))}
# Rank 1 falls silent after 18 minutes.
LEFT = {
    **THERE,
    **rank(1, value=until(18, 1, "stale")),
    **expected(2, until(18, 2, 1)),
}

MISSING = (
    Case(
        "TraceMLRankMissing",
        "a rank that was there is named",
        LEFT,
        (
            Fired(
                "critical",
                "Rank 1 of run demo is missing",
                "1 of 2 ranks do not report. Next: look whether its process lives, and in `dmesg` "
                "whether it was killed.",
                {"rank": "1"},
            ),
        ),
    ),
    Case(
        "TraceMLRankMissing",
        "a rank that never spoke is not",
        {**state(), **rank(0), **expected(2, constant(1))},
        (
            Fired(
                "critical",
                "A rank of run demo is missing",
                "1 of 2 ranks do not report. Next: look whether all were started: a rank that was "
                "never heard of has no name here.",
            ),
        ),
    ),
    Case(
        "TraceMLRankMissing",
        "ranks of an earlier run of the same name are not named",
        {
            **state(),
            **rank(0),
            **rank(1, value=until(20, 1, "stale")),
            **rank(2, value=until(10, 1, "stale")),
            **rank(3, value=until(10, 1, "stale")),
            **expected(2, until(20, 2, 1)),
            **one("traceml_run_start_timestamp_seconds", until(10, 0, 601)),
        },
        (
            Fired(
                "critical",
                "Rank 1 of run demo is missing",
                "1 of 2 ranks do not report. Next: look whether its process lives, and in `dmesg` "
                "whether it was killed.",
                {"rank": "1"},
            ),
        ),
    ),
    Case("TraceMLRankMissing", "all are there", THERE),
    Case("TraceMLRankMissing", "one has said goodbye", {**THERE, **expected(2, constant(1))}),
    Case(
        "TraceMLRankMissing",
        "all report, though nothing more is told of them",
        {**state(), **expected(2, constant(2))},
    ),
    Case("TraceMLRankMissing", "none has come yet", {**state(), **expected(2, constant(0))}),
    Case("TraceMLRankMissing", "for a minute only", LEFT, minutes=19),
    Case("TraceMLRankMissing", "ended", {**LEFT, **state(ENDED)}),
)

STARTED = {**state(), **expected(8, constant(3))}

NEVER_STARTED = (
    Case(
        "TraceMLNeverStarted",
        "after 24 minutes",
        STARTED,
        (
            Fired(
                "warning",
                "Run demo has not completed a single step",
                "It was started 24m 0s ago. Ranks that report: 3. Next: look at what the script "
                "prints: is it loading, compiling, waiting for other nodes? None reports before "
                "its first backward pass.",
            ),
        ),
    ),
    Case(
        "TraceMLNeverStarted",
        "it has",
        {**STARTED, **one("traceml_last_step_timestamp_seconds", constant(100))},
    ),
    Case("TraceMLNeverStarted", "it has time yet", STARTED, minutes=14),
    Case("TraceMLNeverStarted", "ended", {**STARTED, **state(ENDED)}),
)

DIED = {**state(until(18, 1, "stale")), 'up{job="traceml",instance="a:1"}': ENDED}
RESTARTED = {**state(), **one("traceml_sidecar_restarts_total", until(12, 0, 2))}


def records(dropped: float, received: float) -> dict[str, str]:
    return {
        **one("traceml_records_dropped_total", growing(dropped), rank="1", reason="backlog"),
        **one("traceml_records_dropped_total", growing(0), rank="0", reason="late"),
        **one("traceml_records_received_total", growing(received), rank="1"),
    }


UNWRITTEN = one("traceml_records_unjournaled_total", growing(60))
UNSENT = one("traceml_otlp_lost_total", growing(60), signal="metrics")

TELEMETRY = (
    Case(
        "TraceMLTargetDown",
        "of a run that was running",
        DIED,
        (
            Fired(
                "warning",
                "The sidecar of run demo at a:1 does not answer",
                "When it was last scraped its run was running. Next: look whether the machine and "
                "the run are still there; without a sidecar nothing is known of this node, and no "
                "other alert can fire for it.",
                {"job": "traceml", "instance": "a:1"},
            ),
        ),
    ),
    Case("TraceMLTargetDown", "of a run that was over", {**DIED, **state("1x17 0 stale")}),
    Case("TraceMLTargetDown", "withdrawn", {**state(until(18, 1, "stale"))}),
    Case("TraceMLTargetDown", "for a minute only", DIED, minutes=19),
    Case(
        "TraceMLSidecarRestarted",
        "twice",
        RESTARTED,
        (
            Fired(
                "warning",
                "The sidecar of run demo at a:1 was started again",
                "About 2 times within 1h; `traceml run` gives up after five. The training is "
                "not affected. Next: read sidecar.log in the run's folder, and `dmesg` for the "
                "out-of-memory killer.",
                {"instance": "a:1"},
            ),
        ),
    ),
    Case(
        "TraceMLSidecarRestarted",
        "never",
        {**state(), **one("traceml_sidecar_restarts_total", constant(1))},
    ),
    Case("TraceMLSidecarRestarted", "ended", {**RESTARTED, **state(ENDED)}),
    Case(
        "TraceMLRecordsDropped",
        "one in ten",
        {**state(), **records(10, 90)},
        (
            Fired(
                "warning",
                "TraceML loses records of run demo",
                "Within 1h 10% of them were lost, most: rank 1, backlog. The training is not "
                "affected, its figures have gaps. Next: look whether the sidecar has the CPU it "
                "needs.",
            ),
        ),
    ),
    Case("TraceMLRecordsDropped", "one in 200", {**state(), **records(1, 199)}),
    Case("TraceMLRecordsDropped", "nothing at all", {**state(), **records(0, 0)}),
    Case("TraceMLRecordsDropped", "ended", {**records(10, 90), **state(ENDED)}),
    Case(
        "TraceMLJournalNotWritten",
        "a full disk",
        {**state(), **UNWRITTEN},
        (
            Fired(
                "warning",
                "The sidecar of run demo at a:1 cannot write its journal",
                "About 300 records of the last 5m are in its memory only, and are lost if it dies. "
                "The training is not affected. Next: make room on the disk of the run's folder; "
                "the journal then catches up by itself.",
                {"instance": "a:1"},
            ),
        ),
    ),
    Case(
        "TraceMLJournalNotWritten",
        "it was once",
        {**state(), **one("traceml_records_unjournaled_total", constant(500))},
    ),
    Case("TraceMLJournalNotWritten", "ended", {**UNWRITTEN, **state(ENDED)}),
    Case(
        "TraceMLExportLost",
        "no collector",
        {**state(), **UNSENT},
        (
            Fired(
                "warning",
                "The metrics that the sidecar of run demo at a:1 sends through OTLP do not arrive",
                "About 300 were lost in the last 5m. Counters catch up by themselves, gauges have "
                "gaps; /metrics and the training are not affected. Next: look whether the "
                "collector is there and takes what it is sent: its own log, then sidecar.log in "
                "the run's folder.",
                {"instance": "a:1", "signal": "metrics"},
            ),
        ),
    ),
    Case(
        "TraceMLExportLost",
        "it was once",
        {**state(), **one("traceml_otlp_lost_total", constant(500), signal="metrics")},
    ),
    Case("TraceMLExportLost", "ended", {**UNSENT, **state(ENDED)}),
)

GONE = (*STALLS, *MISSING, *NEVER_STARTED, *TELEMETRY)

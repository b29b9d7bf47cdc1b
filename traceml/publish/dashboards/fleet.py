"""All runs: which of them are in trouble, and what that costs."""

from textwrap import indent

from grafana_foundation_sdk.builders import stat, table
from grafana_foundation_sdk.models import units

from traceml.publish.dashboards import frame, style, tables
from traceml.publish.dashboards.frame import Page, Row, way_to
from traceml.publish.dashboards.panels import About, figure, lines, link, timeline
from traceml.publish.dashboards.queries import COUNTED, RUNS, Query, findings
from traceml.publish.dashboards.style import LOST, SCORE, Limits

_SEVERITY = f"max by (run) (\n{indent(findings(RUNS, COUNTED), '  ')}\n)"
_SHARE = f"max by (run) (run:traceml_time_lost:ratio{{{RUNS}}})"
_RANKS = f"max by (run) (run:traceml_ranks_reporting{{{RUNS}}})"
_RUN_OF_CELL = way_to(frame.OVERVIEW, "var-run=${__value.raw}")
_RUN_OF_SERIES = way_to(frame.OVERVIEW, "var-run=${__field.labels.run}")


def page() -> Page:
    """The dashboard."""
    return Page(
        uid=frame.FLEET,
        title="TraceML / Fleet",
        description="All runs that Prometheus scrapes, the one that loses the most time first.",
        since="now-6h",
        variables=[frame.runs_variable()],
        matchers=RUNS,
        rows=[_now(), _course()],
    )


def _now() -> Row:
    return "Now", [
        _count("Runs", "That are running.", f'traceml_run_state{{{RUNS},state="running"}} == 1'),
        _count("Warnings", "Runs whose finding is a warning.", f"{_SEVERITY} == 1", Limits(1)),
        _count("Critical", "Runs whose finding is critical.", f"{_SEVERITY} == 2", Limits(None, 1)),
        figure(
            About(
                "Ranks that only wait",
                "How many ranks' worth of work is lost to waiting for stragglers: each run's share "
                "of time lost, times its ranks.",
                units.NoUnit, span=6, height=4,
            ),
            Query(f"sum({_SHARE}\n* on (run) {_RANKS})", "ranks"),
        ).decimals(1),
        _runs(),
    ]  # fmt: skip


def _count(
    title: str, description: str, found: str, limits: Limits = style.NO_LIMITS
) -> stat.Panel:
    about = About(title, description, units.NoUnit, span=6, height=4, limits=limits)
    return figure(about, Query(f"count(count by (run) ({found})) or vector(0)", title.lower()))


def _runs() -> table.Panel:
    gravest = f"topk by (run) (1,\n{indent(findings(RUNS, COUNTED), '  ')}\n)"
    queries = [
        _SHARE,
        f"max by (run, state, rank, phase) (\n{gravest}\n)",
        f"max by (run) (run:traceml_step_median_seconds{{{RUNS}}})",
        f"max by (run) (run:traceml_steps_completed:rate{{{RUNS}}})",
        _RANKS,
        f"max by (run) (run:traceml_ranks_missing{{{RUNS}}})",
        f"count by (run) (traceml_ranks_expected{{{RUNS}}})",
        f"min by (run) (traceml_run_start_timestamp_seconds{{{RUNS}}}) * 1000",
    ]
    columns = [
        tables.label("run", "Run", tables.leads_to("Its overview", _RUN_OF_CELL)),
        tables.value("A", "Time lost", units.PercentUnit, *tables.limited(LOST)),
        tables.value(
            "B", "Severity", units.NoUnit, tables.worded(style.SEVERITY_NUMBERS), tables.COLOURED
        ),
        tables.label("state", "Diagnosis", tables.worded(style.STATE_WORDS)),
        tables.label("rank", "Rank"),
        tables.label("phase", "Phase"),
        tables.value("C", "Step time", units.Seconds),
        tables.value("D", "Steps a second", style.A_SECOND),
        tables.value("E", "Ranks", units.NoUnit),
        tables.value("F", "Missing", units.NoUnit, *tables.limited(Limits(None, 1))),
        tables.value("G", "Nodes", units.NoUnit),
        tables.value("H", "Started", units.DateTimeFromNow),
    ]
    about = About(
        "Runs, worst first",
        "Each run with the share of its time that it loses to stragglers, and the gravest finding "
        "that its nodes tell. The name leads to its overview.",
        units.NoUnit, span=24, height=10, empty="no run is scraped",
    )  # fmt: skip
    return tables.table(about, columns, queries, sort="Time lost")


def _course() -> Row:
    return "Over time", [
        timeline(
            About(
                "Severity by run", "Of the gravest finding on steps' time or memory.",
                units.NoUnit, span=24, height=7, limits=SCORE,
            ),
            Query(_SEVERITY, "{{run}}"),
        ).data_links([link("Its overview", _RUN_OF_SERIES)]),
        lines(
            About(
                "Share of time lost", "To stragglers, of each run.", units.PercentUnit, limits=LOST
            ),
            Query(_SHARE, "{{run}}"),
        ).data_links([link("Its overview", _RUN_OF_SERIES)]),
        lines(
            About("Step time", "Of the median rank of each run.", units.Seconds),
            Query(f"max by (run) (run:traceml_step_median_seconds{{{RUNS}}})", "{{run}}"),
        ).data_links([link("Its overview", _RUN_OF_SERIES)]),
    ]  # fmt: skip

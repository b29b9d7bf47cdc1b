"""The ranks of a run, compared: who holds the others back, in which phase, since when."""

from grafana_foundation_sdk.builders import barchart, heatmap, table, timeseries
from grafana_foundation_sdk.models import common, dashboard, units

from traceml.diagnosis.policy import Policy
from traceml.publish.dashboards import frame, style, tables
from traceml.publish.dashboards.frame import Page, Row, way_to
from traceml.publish.dashboards.panels import About, filled, heat, lines, stacked
from traceml.publish.dashboards.queries import (
    RANKS,
    RUN,
    Query,
    most_lost,
    rate,
    worst_by_own_work,
)
from traceml.publish.dashboards.style import LOST, SCORE, Limits

_MOST_BARS = 16
_OWN = f"run_rank:traceml_rank_own_seconds{{{RANKS}}}"
_PHASES = f"run_rank_phase:traceml_rank_phase_seconds{{{RANKS}}}"
_LOST = f"run_rank_phase:traceml_time_lost:ratio{{{RANKS}}}"
_IDLE = Limits(Policy().launch_warning, Policy().launch_critical)
_ONE_RANK = way_to(frame.RANKS, "${run:queryparam}", "var-rank=${__value.raw}")


def page() -> Page:
    """The dashboard."""
    return Page(
        uid=frame.RANKS,
        title="TraceML / Ranks",
        description="The ranks of one run side by side. In synchronous training all steps are "
        "equally long: the rank to blame is the one with the most work of its own.",
        since="now-1h",
        variables=[frame.run_variable(), frame.rank_variable(), frame.phase_variable()],
        matchers=RUN,
        rows=[
            ("Who holds the others back", [_own_work(), _worst(), _now()]),
            ("A phase on all ranks", [_phase()]),
            _course(),
        ],
    )


def _own_work() -> heatmap.Panel:
    return heat(
        About(
            "Own work by rank",
            "Work of its own in a step, all but waiting, of each rank over time. A row that is "
            "hotter than the others is whom they wait for.",
            units.Seconds, span=24, height=10,
        ),
        Query(f"max by (rank) ({_OWN})", "{{rank}}"),  # rows that are numbers, Grafana sorts
    )  # fmt: skip


def _worst() -> table.Panel:
    score = f"run_rank:traceml_straggler_score{{{RANKS}}}"
    memory = f'traceml_rank_memory_peak_bytes{{{RANKS},kind!="reserved"}}'
    waits = _PHASES.replace("}", ',phase="collective_wait"}')
    queries = [
        f"max by (node, rank) ({_OWN})",
        f"max by (rank) ({score} or {_OWN} * 0)",
        f"sum by (rank) ({_LOST})",
        f"max by (rank) ({waits})",
        f"max by (rank) ({memory})",
    ]
    columns = [
        tables.label("rank", "Rank", tables.leads_to("This rank alone", _ONE_RANK)),
        tables.label("node", "Node"),
        tables.value("B", "Late", units.NoUnit, *tables.limited(SCORE)),
        tables.value("C", "Time lost to it", units.PercentUnit, *tables.limited(LOST)),
        tables.value("A", "Own work", units.Seconds),
        tables.value("D", "Waits", units.Seconds),
        tables.value("E", "Memory", units.BytesIEC),
    ]
    about = About(
        "Worst ranks",
        "The one that holds the others up most comes first. Late: by how much its own work exceeds "
        "that of its group, on all nodes, if they wait for it; from 1 on it is more than is "
        "tolerated.",
        units.NoUnit, height=9,
    )  # fmt: skip
    return tables.table(about, columns, queries, sort="Late")


def _now() -> barchart.Panel:
    about = About(
        "Phases by rank",
        f"What a step is made of on each rank; of the {_MOST_BARS} with the most own work.",
        units.Seconds, height=9,
    )  # fmt: skip
    asked = f"max by (rank, phase) (\n{worst_by_own_work(_PHASES, _MOST_BARS)}\n)"
    pivot = {"rowField": "rank", "columnField": "phase", "valueField": "Value"}
    panel = (
        filled(barchart.Panel(), about, [Query(asked, now=True, table=True)])
        .with_transformation(dashboard.DataTransformerConfig("groupingToMatrix", options=pivot))
        .x_field("rank\\phase")
        .orientation(common.VizOrientation.HORIZONTAL)
        .stacking(common.StackingMode.NORMAL)
        .show_value(common.VisibilityMode.NEVER)
        .legend(style.legend())
    )
    for phase, colour in style.phase_colours():
        panel.override_by_name(phase, [colour])
    return panel


def _phase() -> timeseries.Panel:
    only = _PHASES.replace("}", ',phase="$phase"}')
    panel = lines(
        About("$phase", "A rank's typical time in this phase of a step.", units.Seconds, span=8),
        Query(f"max by (rank) ({only})", "rank {{rank}}"),
    )
    return panel.repeat("phase").repeat_direction("h").max_per_row(3)


def _course() -> Row:
    return "Over time", [
        lines(
            About(
                "How much longer the others wait",
                "By how much the other ranks of its group wait longer in a step than this rank "
                "does: what is high is waited for.",
                units.Seconds,
            ),
            Query(
                f"max by (rank) (run_rank:traceml_rank_awaited_seconds{{{RANKS}}})", "rank {{rank}}"
            ),
        ),
        stacked(
            About(
                "Share of time lost",
                "Share of wall time that other ranks wait for a rank, by the phase in which it is "
                "slow.",
                units.PercentUnit, limits=LOST,
            ),
            most_lost(),
        ),
        lines(
            About(
                "Where ranks wait",
                "Waiting for others in a step, by the part of the step in which a rank does it.",
                units.Seconds,
            ),
            Query(
                f"max by (rank, place) (traceml_rank_wait_seconds{{{RANKS}}})",
                "rank {{rank}} in {{place}}",
            ),
        ),
        lines(
            About(
                "Devices that wait for the CPU",
                "Share of a step, within forward, backward and optimizer, in which the device had "
                "done all that was queued: an upper bound.",
                units.PercentUnit, limits=_IDLE, empty="no device",
            ),
            Query(f"max by (rank) (traceml_device_idle_ratio{{{RANKS}}})", "rank {{rank}}"),
        ),
        lines(
            About(
                "Samples a second",
                "What each rank fetches. Batches of different size explain a straggler.",
                style.A_SECOND, span=8,
            ),
            Query(rate("traceml_rank_samples_total", RANKS, "rank"), "rank {{rank}}"),
        ),
        lines(
            About(
                "Memory",
                "Peak over the last 100 steps, by kind, and the resident set of the process.",
                units.BytesIEC, span=8,
            ),
            Query(
                f"max by (rank, kind) (traceml_rank_memory_peak_bytes{{{RANKS}}})",
                "rank {{rank}} {{kind}} peak",
            ),
            Query(
                f"max by (rank) (traceml_rank_resident_memory_bytes{{{RANKS}}})",
                "rank {{rank}} resident",
            ),
        ),
        lines(
            About(
                "Cores in use",
                "CPU time of a rank's process in a second. Less than one, where it computes on the "
                "CPU, means that it does not get its core.",
                units.NoUnit, span=8,
            ),
            Query(rate("traceml_rank_cpu_seconds_total", RANKS, "rank"), "rank {{rank}}"),
        ),
    ]  # fmt: skip

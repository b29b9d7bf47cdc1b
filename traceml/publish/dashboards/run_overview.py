"""One run: what is wrong with it, since when, and what it costs."""

from textwrap import indent

from grafana_foundation_sdk.builders import stat, table
from grafana_foundation_sdk.models import common, units

from traceml.diagnosis.policy import Policy
from traceml.publish.dashboards import frame, style, tables
from traceml.publish.dashboards.frame import Page, Row, way_to
from traceml.publish.dashboards.panels import About, bars, figure, lines, link, stacked, timeline
from traceml.publish.dashboards.queries import (
    COUNTED,
    RANKS,
    RUN,
    Query,
    findings,
    most_lost,
    rate,
    worst_by_own_work,
    worst_ranks,
)
from traceml.publish.dashboards.run_context import machines, telemetry
from traceml.publish.dashboards.states import WITH_RUNBOOK
from traceml.publish.dashboards.style import LOST, SCORE, Limits, Property
from traceml.publish.rules.options import Options

_SILENT = Limits(Policy().stalled_seconds, Options().stalled_after.seconds)
_TO_RANKS = way_to(frame.RANKS, "${run:queryparam}", "var-rank=${__field.labels.rank}")
_PHASES = f"run_rank_phase:traceml_rank_phase_seconds{{{RUN}}}"
_NOT_SCRAPED = "not scraped at the end of this time range"


def page() -> Page:
    """The dashboard."""
    return Page(
        uid=frame.OVERVIEW,
        title="TraceML / Run overview",
        description="One training run: its diagnosis now and over time, what a step is made of, "
        "and what is lost to which rank and phase.",
        since="now-1h",
        variables=[frame.run_variable(), frame.rank_variable()],
        matchers=RUN,
        rows=[_now(), _steps(), machines(), telemetry()],
    )


def _now() -> Row:
    return "Now", [
        _state(),
        figure(
            About(
                "Time lost",
                "Share of wall time that ranks wait for the slowest, over the rules' window: of "
                "the node that loses the most, or over all nodes, whatever is more.",
                units.PercentUnit, span=4, height=4, limits=LOST,
            ),
            Query(f"run:traceml_time_lost:ratio{{{RUN}}}", "lost"),
        ),
        figure(
            About(
                "Step time",
                "Of the median rank over the last 100 completed steps, tagged ones left out.",
                units.Seconds, span=4, height=4,
            ),
            Query(f"run:traceml_step_median_seconds{{{RUN}}}", "median rank"),
        ),
        figure(
            About(
                "Steps a second", "Completed by all ranks of all nodes.",
                style.A_SECOND, span=4, height=4,
            ),
            Query(f"run:traceml_steps_completed:rate{{{RUN}}}", "steps"),
        ),
        _ranks(),
        figure(
            About(
                "Since the last step",
                "Time since a step was last completed by all ranks of a node. Evaluations and "
                "checkpoints take their time; the diagnosis STALLED knows of them.",
                units.Seconds, span=4, height=4, limits=_SILENT,
            ),
            Query(f"time() - min(traceml_last_step_timestamp_seconds{{{RUN}}})", "ago"),
        ),
        _diagnosis(),
        bars(
            About(
                "How far from holding",
                "Each rule's measured value over its warning threshold: from 1 on it holds. A rule "
                "that cannot judge has no bar.",
                units.NoUnit, span=10, height=9, limits=SCORE,
            ),
            Query(
                "sort_desc(max by (state) (traceml_diagnosis_score"
                f'{{{RUN},domain=~"{COUNTED}",state!="COMPUTE_BOUND"}}))',
                "{{state}}",
                now=True,
            ),
        ).max(2).decimals(2),
        timeline(
            About(
                "Diagnosis over time",
                "The finding that counts in each domain, as every node tells it, with the rank and "
                "the phase it names; its colour is its severity.",
                units.NoUnit, span=24, height=7, limits=SCORE,
            ),
            Query(
                "label_replace(\n"
                "  max by (domain, state, rank, phase) (\n"
                f"{indent(findings(RUN, COUNTED), '    ')}\n"
                "  ),\n"
                '  "rank", "rank $1", "rank", "(.+)"\n'
                ")",
                "{{domain}}: {{state}} {{rank}} {{phase}}",
            ),
        ),
    ]  # fmt: skip


def _state() -> stat.Panel:
    panel = figure(
        About(
            "State", "What the run is doing, or how it has ended.", units.NoUnit,
            span=4, height=4, empty=_NOT_SCRAPED,
        ),
        Query(
            "max by (state) (last_over_time"
            f"(traceml_run_state{{{RUN}}}[$__range])) == 1", "{{state}}", now=True,
        ),
    )  # fmt: skip
    for state, colour in (("completed", "blue"), ("interrupted", "orange"), ("failed", "red")):
        panel.override_by_name(state, [style.fixed(colour)])
    return panel.text_mode(common.BigValueTextMode.NAME).graph_mode(common.BigValueGraphMode.NONE)


def _ranks() -> stat.Panel:
    panel = figure(
        About(
            "Ranks",
            "Heard of in the last seconds; and those that are neither there nor have said goodbye.",
            units.NoUnit, span=4, height=4,
        ),
        Query(f"run:traceml_ranks_reporting{{{RUN}}}", "reporting"),
        Query(f"run:traceml_ranks_missing{{{RUN}}}", "missing"),
    )  # fmt: skip
    missing = Property("thresholds", Limits(None, 1).build().build())
    return panel.override_by_name("missing", [missing])


def _diagnosis() -> table.Panel:
    columns = [
        tables.label("domain", "Domain", tables.width(110)),
        tables.label("state", "Diagnosis", tables.worded(style.STATE_WORDS)),
        tables.value(
            "", "Severity", units.NoUnit, tables.worded(style.SEVERITY_NUMBERS), tables.COLOURED,
            tables.width(90),
        ),
        tables.label("rank", "Rank", tables.width(60)),
        tables.label("phase", "Phase", tables.width(120)),
        tables.label("why", "Why", tables.worded(style.WHY_WORDS)),
        tables.label(
            "runbook", "Runbook", tables.worded(style.RUNBOOK_WORDS),
            tables.leads_to("What to do", "${runbooks}/${__value.text}.md", new_tab=True),
        ),
    ]  # fmt: skip
    about = About(
        "Diagnosis",
        "What is found over the last 100 completed steps, by domain: what it means, whom it names, "
        "and where it says what to do. Step time and step memory count; the others are context.",
        units.NoUnit, span=14, height=9, limits=SCORE, empty=_NOT_SCRAPED,
    )  # fmt: skip
    asked = f"max by (domain, state, rank, phase) (\n{indent(findings(RUN), '  ')}\n)"
    for name, states in (("why", ".+"), ("runbook", "|".join(WITH_RUNBOOK))):
        asked = f'label_replace({asked}, "{name}", "$1", "state", "({states})")'
    return tables.table(about, columns, [asked], sort="Severity")


def _typical() -> str:
    """The median of the others; of all, where there is one rank alone or none is told."""
    others = f"{_PHASES}\n  unless on (run, rank) {worst_ranks(1)}"
    everyone = f"run_phase:traceml_phase_median_seconds{{{RUN}}}"
    return f"quantile by (phase) (0.5,\n  {others}\n)\nor max by (phase) ({everyone})"


def _steps() -> Row:
    return "Steps", [
        lines(
            About(
                "Step time, median against worst",
                "The median rank and the slowest over the last 100 steps, and the slowest in a "
                "hundred of all steps. Points are steps that stood out: each leads to its trace.",
                units.Seconds,
            ),
            Query(f"run:traceml_step_median_seconds{{{RUN}}}", "median rank"),
            Query(f"run:traceml_step_worst_seconds{{{RUN}}}", "worst rank"),
            Query(
                f"histogram_quantile(0.99, {rate('traceml_step_seconds_bucket', RUN, 'le')})",
                "one step in a hundred",
                exemplars=True,
            ),
        ),
        stacked(
            About(
                "Share of time lost, by rank and phase",
                "Share of wall time that other ranks wait for a rank, by the phase in which it is "
                "slow.",
                units.PercentUnit, limits=LOST,
            ),
            most_lost(),
        ).data_links([link("This rank", _TO_RANKS)]),
        stacked(
            About(
                "Phases of the typical rank",
                "What a step is made of: the median of all ranks but the worst, phase by phase. "
                "Where these wait for that one, it shows here.",
                units.Seconds,
            ),
            Query(_typical(), "{{phase}}"),
        ),
        stacked(
            About(
                "Phases of the worst rank",
                "The same for the rank with the most own work, which is the one the others wait "
                "for: it hardly waits itself.",
                units.Seconds,
            ),
            Query(
                "max by (phase) (\n"
                + worst_by_own_work(_PHASES, 1)
                + "\n)",
                "{{phase}}",
            ),
        ),
        bars(
            About(
                "Seconds lost, by rank and phase",
                "Over the whole time range: how long the other ranks of its node have waited for a "
                "rank, by the phase in which it was slow.",
                units.Seconds, span=24, height=6,
            ),
            Query(
                "topk(8, sum by (rank, phase) "
                f"(increase(traceml_straggler_lost_seconds_total{{{RANKS}}}[$__range])))",
                "rank {{rank}} {{phase}}",
                now=True,
            ),
        ).data_links([link("This rank", _TO_RANKS)]),
    ]  # fmt: skip

"""What the dashboards have in common: variables, annotations, and the way from one to another."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard, table
from grafana_foundation_sdk.models.dashboard import VariableRefresh, VariableSort

from traceml.publish.dashboards.annotations import diagnosis_changes, restarts
from traceml.publish.dashboards.queries import SOURCE

OVERVIEW, RANKS, FLEET = "traceml-run-overview", "traceml-ranks", "traceml-fleet"
TAG = "traceml"
RUNBOOKS = "/public/traceml/runbooks"  # docs/runbooks, as Grafana itself can serve them

_KEPT = "${__url_time_range}&${datasource:queryparam}"

Row = tuple[str, Sequence[Builder[dashboard.Panel]]]  # its title, and what is in it


@dataclass(frozen=True, slots=True)
class Page:
    """A dashboard but for what all of them have."""

    uid: str
    title: str
    description: str
    since: str
    variables: Sequence[Builder[dashboard.VariableModel]]
    matchers: str  # of the chosen run, for annotations
    rows: Sequence[Row]


def framed(page: Page, runbooks: str = RUNBOOKS) -> dashboard.Dashboard:
    """The whole of it."""
    board = (
        builders.Dashboard(page.title)
        .uid(page.uid)
        .description(page.description)
        .tags([TAG])
        .time(page.since, "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(_others())
        .variables([_data_source(), *page.variables, _runbooks(runbooks)])
        .annotations([diagnosis_changes(page.matchers), restarts(page.matchers)])
    )
    for title, panels in page.rows:
        board.with_row(builders.Row(title))
        for panel in panels:
            board.with_panel(panel)
    return _numbered(_pruned(board.build()))


def run_variable() -> builders.QueryVariable:
    """The run, the newest one first."""
    newest_first = (
        "query_result(sort_desc(max by (run) "
        "(max_over_time(traceml_run_start_timestamp_seconds[$__range]))))"
    )
    return _asked("run", "Run", newest_first).regex('/run="([^"]+)"/').sort(VariableSort.DISABLED)


def runs_variable() -> builders.QueryVariable:
    """Runs, all of them at first."""
    found = "label_values(traceml_run_start_timestamp_seconds, run)"
    return _several(_asked("runs", "Runs", found).sort(VariableSort.NATURAL_ASC))


def rank_variable() -> builders.QueryVariable:
    """Ranks of the run, all of them at first."""
    found = 'label_values(traceml_rank_info{run="$run"}, rank)'
    return _several(_asked("rank", "Ranks", found).sort(VariableSort.NUMERICAL_ASC))


def phase_variable() -> builders.QueryVariable:
    """Phases that the run has, all of them at first."""
    found = 'label_values(traceml_rank_phase_seconds{run="$run"}, phase)'
    return _several(_asked("phase", "Phases", found).sort(VariableSort.ALPHABETICAL_ASC))


def way_to(uid: str, *parameters: str) -> str:
    """The address of another dashboard, for the same time and data source."""
    return f"/d/{uid}?{'&'.join((_KEPT, *parameters))}"


def _numbered(board: dashboard.Dashboard) -> dashboard.Dashboard:
    for number, panel in enumerate(board.panels or [], 1):
        panel.id_val = number
    return board


def _pruned(board: dashboard.Dashboard) -> dashboard.Dashboard:
    """Without what the SDK always writes and Grafana's newer types do not know."""
    for variable in (board.templating and board.templating.list_val) or []:
        variable.auto = variable.auto_min = variable.auto_count = None
    for panel in board.panels or []:
        if isinstance(panel, dashboard.Panel) and isinstance(panel.options, table.Options):
            panel.options.footer = None
    return board


def _asked(name: str, label: str, found: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(found)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def _several(variable: builders.QueryVariable) -> builders.QueryVariable:
    everything = dashboard.VariableOption(text=["All"], value=["$__all"])
    return variable.multi(True).include_all(True).all_value(".+").current(everything)


def _data_source() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _runbooks(address: str) -> builders.ConstantVariable:
    return builders.ConstantVariable("runbooks").value(address.rstrip("/"))


def _others() -> builders.DashboardLink:
    return (
        builders.DashboardLink("TraceML")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .keep_time(True)
        .include_vars(True)
    )

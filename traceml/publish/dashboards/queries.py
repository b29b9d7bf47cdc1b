"""What is asked of Prometheus, and in which form the answer comes."""

from dataclasses import dataclass

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

RUN = 'run="$run"'
RANKS = f'{RUN},rank=~"$rank"'
RUNS = 'run=~"$runs"'
COUNTED = "step_time|step_memory"  # domains whose findings are a run's own; others are context

ACROSS_NODES = "STRAGGLER_ACROSS_NODES"  # no sidecar can say so: none sees another's ranks

_MOST_SHOWN = 8  # of rank and phase, at a time

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and what its series are called."""

    expr: str
    legend: str = ""
    now: bool = False  # at the end of the time range, rather than all along
    table: bool = False
    exemplars: bool = False

    def build(self, ref: str) -> prometheus.Dataquery:
        """As Grafana has it."""
        query = (
            prometheus.Dataquery()
            .ref_id(ref)
            .datasource(SOURCE)
            .editor_mode(QueryEditorMode.CODE)
            .expr(self.expr)
            .legend_format(self.legend)
            .format(PromQueryFormat.TABLE if self.table else PromQueryFormat.TIME_SERIES)
            .exemplar(self.exemplars)
        )
        return query.instant() if self.now else query.range()


def rate(counter: str, matchers: str, by: str) -> str:
    """What counters gain in a second, over what Grafana thinks fit for the time range."""
    return f"sum by ({by}) (rate({counter}{{{matchers}}}[$__rate_interval]))"


def gained(counter: str, matchers: str, by: str) -> str:
    """What they gain between two points of a graph."""
    return f"sum by ({by}) (increase({counter}{{{matchers}}}[$__rate_interval]))"


def findings(run: str, domains: str = ".+") -> str:
    """Severities of what the nodes say, and of what only all nodes together can tell."""
    matchers = f'{run},domain=~"{domains}"'
    across = f"run_rank_phase:traceml_straggler_across_nodes{{{run}}}"
    for label, value in (("state", ACROSS_NODES), ("domain", "step_time")):
        across = f'label_replace({across}, "{label}", "{value}", "", "")'
    return (
        f"traceml_diagnosis_info{{{matchers}}}\n"
        "* on (run, instance, domain) group_left ()\n"
        f"traceml_diagnosis_severity{{{matchers}}}\n"
        f"or\n{across}"
    )


def most_lost() -> Query:
    """The shares of wall time lost that count, by rank and phase; the others would be hundreds."""
    lost = f"run_rank_phase:traceml_time_lost:ratio{{{RANKS}}}"
    return Query(f"topk({_MOST_SHOWN}, {lost})", "rank {{rank}} {{phase}}")


def worst_ranks(count: int) -> str:
    """Those with the most own work: whom the others wait for."""
    return f"topk by (run) ({count}, run_rank:traceml_rank_own_seconds{{{RUN}}})"


def worst_by_own_work(series: str, count: int) -> str:
    """Of those ranks only."""
    return f"{series}\nand on (run, rank) {worst_ranks(count)}"

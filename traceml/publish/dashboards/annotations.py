"""Marks across all panels: where the diagnosis changed, and where something was started again."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from traceml.publish.dashboards.queries import SOURCE

_STEP = "30s"
_WINDOW = "45s"  # a step and a scrape more, or a change between two windows were in neither


class Marks(dashboard.AnnotationQuery, Builder[dashboard.AnnotationQuery]):
    """An annotation by a query of Prometheus, which has fields that the SDK does not know.

    Grafana marks each moment at which a series of it is above 0.
    """

    def __init__(self, name: str, colour: str, expr: str, title: str, text: str) -> None:
        super().__init__(name=name, datasource=SOURCE, icon_color=colour, built_in=None)
        self._expr = expr
        self._title = title
        self._text = text

    def build(self) -> dashboard.AnnotationQuery:
        """Itself."""
        return self

    def to_json(self) -> dict[str, object]:
        """As Grafana has it."""
        target = {"expr": self._expr, "interval": _STEP, "refId": "Anno"}
        formats = {"titleFormat": self._title, "textFormat": self._text}
        return {**super().to_json(), **formats, "target": target}


def diagnosis_changes(matchers: str) -> Marks:
    """Whenever another finding has become the one that counts."""
    changed = f'changes(traceml_diagnosis{{{matchers},domain=~"step_time|step_memory"}}[{_WINDOW}])'
    expr = (
        "max by (run, domain, state, severity, rank, phase) (\n"
        f"  ({changed} > 0)\n"
        "  * on (run, instance, domain, state) group_left (severity, rank, phase)\n"
        f"  traceml_diagnosis_info{{{matchers}}}\n"
        ")"
    )
    return Marks(
        "Diagnosis changes", "orange", expr,
        "{{run}}: {{state}}", "{{domain}}, {{severity}}; rank {{rank}} {{phase}}",
    )  # fmt: skip


def restarts(matchers: str) -> Marks:
    """Whenever a sidecar or the ranks were started again."""
    ranks = f'traceml_steps_incomplete_total{{{matchers},reason="restart"}}'
    expr = (
        "sum by (run, instance) (\n"
        f"  changes(traceml_sidecar_restarts_total{{{matchers}}}[{_WINDOW}])\n"
        f"  + ignoring (reason) changes({ranks}[{_WINDOW}])\n"
        ") > 0"
    )
    return Marks(
        "Restarts", "purple", expr,
        "{{run}}: restart", "The sidecar {{instance}}, or the ranks that it serves, began anew.",
    )  # fmt: skip

"""The few kinds of panel that the dashboards are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from grafana_foundation_sdk.builders import bargauge, heatmap, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode

from traceml.publish.dashboards import style
from traceml.publish.dashboards.queries import SOURCE, Query
from traceml.publish.dashboards.style import NO_LIMITS, Limits

_REFS = "ABCDEFGHIJKLMNOP"
_LAST = "lastNotNull"


@dataclass(frozen=True, slots=True)
class About:
    """What every panel has."""

    title: str
    description: str
    unit: str
    span: int = 12
    height: int = 8
    limits: Limits = NO_LIMITS
    empty: str = ""  # shown where there is nothing


class _Panel(Protocol):
    """What the builders of all kinds have in common."""

    def title(self, title: str, /) -> Any: ...
    def description(self, description: str, /) -> Any: ...
    def unit(self, unit: str, /) -> Any: ...
    def span(self, w: int, /) -> Any: ...
    def height(self, h: int, /) -> Any: ...
    def datasource(self, datasource: dashboard.DataSourceRef, /) -> Any: ...
    def thresholds(self, thresholds: Any, /) -> Any: ...
    def no_value(self, no_value: str, /) -> Any: ...
    def with_target(self, target: Any, /) -> Any: ...


P = TypeVar("P", bound=_Panel)


def filled(panel: P, about: About, queries: Sequence[Query]) -> P:
    """The panel with what every panel has."""
    panel.title(about.title)
    panel.description(about.description)
    panel.unit(about.unit)
    panel.span(about.span)
    panel.height(about.height)
    panel.datasource(SOURCE)
    panel.thresholds(about.limits.build())
    if about.empty:
        panel.no_value(about.empty)
    for ref, query in zip(_REFS, queries, strict=False):
        panel.with_target(query.build(ref))
    return panel


def lines(about: About, *queries: Query) -> timeseries.Panel:
    """Series over time; where there is a limit it is drawn."""
    has_limits = about.limits != NO_LIMITS
    mode = common.GraphThresholdsStyleMode
    drawn = common_builders.GraphThresholdsStyleConfig().mode(
        mode.DASHED if has_limits else mode.OFF
    )
    return (
        filled(timeseries.Panel(), about, queries)
        .min(0)
        .line_width(1)
        .fill_opacity(10)
        .show_points(common.VisibilityMode.NEVER)
        .thresholds_style(drawn)
        .legend(style.legend("mean", "max", _LAST))
        .tooltip(_all_series())
    )


def stacked(about: About, *queries: Query) -> timeseries.Panel:
    """Series over time, one on top of the other, that make a whole; phases in their colours."""
    stacking = common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    panel = lines(about, *queries).stacking(stacking).fill_opacity(70).line_width(0)
    for phase, colour in style.phase_colours():
        panel.override_by_name(phase, [colour])
    return panel


def figure(about: About, *queries: Query) -> stat.Panel:
    """The last value in large, over its course."""
    last = common_builders.ReduceDataOptions().calcs([_LAST]).values(False)
    return (
        filled(stat.Panel(), about, queries)
        .reduce_options(last)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
    )


def bars(about: About, *queries: Query) -> bargauge.Panel:
    """Values of now side by side, in the order in which they come."""
    last = common_builders.ReduceDataOptions().calcs([_LAST]).values(False)
    return (
        filled(bargauge.Panel(), about, queries)
        .reduce_options(last)
        .min(0)
        .orientation(common.VizOrientation.HORIZONTAL)
        .display_mode(common.BarGaugeDisplayMode.BASIC)
        .value_mode(common.BarGaugeValueMode.COLOR)
        .show_unfilled(True)
        .sizing(common.BarGaugeSizing.AUTO)
        .min_viz_height(16)
    )


def timeline(about: About, *queries: Query) -> statetimeline.Panel:
    """Severities over time, a row for each series."""
    return (
        filled(statetimeline.Panel(), about, queries)
        .mappings([style.SEVERITY_NUMBERS])
        .color_scheme(builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.8)
        .line_width(0)
        .fill_opacity(85)
        .legend(style.legend())
    )


def heat(about: About, *queries: Query) -> heatmap.Panel:
    """A row for each series, the hotter the larger its value."""
    colours = (
        heatmap.HeatmapColorOptions()
        .mode(HeatmapColorMode.SCHEME)
        .scheme("Turbo")
        .steps(64)
        .fill("dark-orange")
        .exponent(0.5)
        .reverse(False)
    )
    return (
        filled(heatmap.Panel(), about, queries)
        .calculate(False)
        .color(colours)
        .cell_gap(1)
        .cell_values(heatmap.CellValues().unit(about.unit))
        .y_axis(heatmap.YAxisConfig().axis_placement(common.AxisPlacement.LEFT).unit("none"))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.AUTO))
        .show_value(common.VisibilityMode.NEVER)
        .show_legend()
        .hide_y_histogram()
    )


def link(title: str, url: str) -> builders.DashboardLink:
    """A way from a value to elsewhere."""
    return builders.DashboardLink(title).url(url)


def _all_series() -> common_builders.VizTooltipOptions:
    return (
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )

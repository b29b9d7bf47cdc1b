"""Tables: each query brings a column of values, and the labels it has left bring the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import table as builder
from grafana_foundation_sdk.models import common, dashboard

from traceml.publish.dashboards.panels import About, filled
from traceml.publish.dashboards.queries import Query
from traceml.publish.dashboards.style import Limits, Property

COLOURED = Property("custom.cellOptions", common.TableColoredBackgroundCellOptions())


@dataclass(frozen=True, slots=True)
class Column:
    """What a label of the queries, or the value of one, looks like."""

    field: str  # as Grafana calls it before it is renamed
    title: str
    properties: tuple[Property, ...] = ()


def label(name: str, title: str, *properties: Property) -> Column:
    """A column of texts."""
    return Column(name, title, properties)


def value(ref: str, title: str, unit: str, *properties: Property) -> Column:
    """A column of figures, by the letter of its query; without one, of the only query."""
    return Column(f"Value #{ref}" if ref else "Value", title, (Property("unit", unit), *properties))


def limited(limits: Limits) -> tuple[Property, Property]:
    """Coloured by these limits."""
    return Property("thresholds", limits.build().build()), COLOURED


def worded(mapping: dashboard.ValueMap) -> Property:
    """Words in place of values."""
    return Property("mappings", [mapping])


def width(pixels: int) -> Property:
    """Of the column."""
    return Property("custom.width", pixels)


def leads_to(title: str, url: str, *, new_tab: bool = False) -> Property:
    """A link in each cell; out of Grafana's own pages only a new tab leads."""
    return Property("links", [{"title": title, "url": url, "targetBlank": new_tab}])


def table(
    about: About, columns: Sequence[Column], queries: Sequence[str], sort: str
) -> builder.Panel:
    """Rows that the queries share; those with the largest value of the column `sort` come first."""
    asked = [Query(expr, now=True, table=True) for expr in queries]
    order = common_builders.TableSortByFieldState().display_name(sort).desc(True)
    panel = filled(builder.Panel(), about, asked).sort_by([order])
    panel.transformations(_arranged(columns))
    for column in columns:
        if column.properties:
            panel.override_by_name(column.title, list(column.properties))
    return panel


def _arranged(columns: Sequence[Column]) -> list[dashboard.DataTransformerConfig]:
    """One row for what is equal in the labels that all queries have, and these columns of it."""
    fields = [column.field for column in columns]
    titles = {column.field: column.title for column in columns}
    order = {field: place for place, field in enumerate(fields)}
    return [
        dashboard.DataTransformerConfig("merge", options={}),
        dashboard.DataTransformerConfig(
            "filterFieldsByName", options={"include": {"names": fields}}
        ),
        dashboard.DataTransformerConfig(
            "organize", options={"indexByName": order, "renameByName": titles}
        ),
    ]

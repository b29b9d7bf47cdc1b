"""Panels that are written: a figure in large, and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.grafana.asking import Series
from tests.grafana.charts import Drawn
from tests.grafana.shown import Look
from traceml.report.markup import Markup, element
from traceml.report.svg import INK

Row = dict[str, Any]


def figures(panel: Mapping[str, Any], series: Sequence[Drawn]) -> Markup:
    """The last value of each series, in large; or its name."""
    is_name = panel["options"].get("textMode") == "name"
    shown = []
    for each in series:
        look = Look.of(panel, each.name)
        text = each.name if is_name else look.figure(each.last)
        colour = look.fixed or look.colour(each.last)
        name = None if len(series) == 1 else element("span", each.name)
        shown.append(element("div", name, element("b", text, style=f"color:{colour}")))
    return element("div", *shown, class_="figures")


def table(panel: Mapping[str, Any], found: Sequence[Sequence[Series]]) -> Markup:
    """As its transformations make it of what its queries got."""
    merge, kept, organize = (step["options"] for step in panel["transformations"])
    assert merge == {}
    columns = sorted(kept["include"]["names"], key=lambda name: organize["indexByName"][name])
    titles = [organize["renameByName"][name] for name in columns]
    rows = _merged(found)
    (order,) = panel["options"]["sortBy"]
    by = columns[titles.index(order["displayName"])]
    rows.sort(key=lambda row: row.get(by, float("-inf")), reverse=order["desc"])
    head = element("tr", *(element("th", title) for title in titles))
    return element(
        "table",
        head,
        *(
            element("tr", *(_cell(Look.of(panel, title), row.get(column, ""))
                            for column, title in zip(columns, titles, strict=True)))
            for row in rows
        ),
    )  # fmt: skip


def _cell(look: Look, value: str | float) -> Markup:
    text, colour = look.words(value) if value != "" else ("", None)
    if look.properties.get("custom.cellOptions", {}).get("type") == "color-background":
        colour = colour or (look.colour(value) if isinstance(value, float) else None)
        return element("td", text, style=f"background:{colour};color:#fff" if colour else None)
    is_link = "links" in look.properties and text
    return element("td", text, style=f"color:{'#3274d9' if is_link else INK}")


def _merged(found: Sequence[Sequence[Series]]) -> list[Row]:
    """One row for what is equal in the labels that all queries have, as Grafana merges."""
    labels = [{name for each in series for name in each["metric"]} for series in found]
    shared = sorted(set.intersection(*labels))
    rows: dict[tuple[str, ...], Row] = {}
    for ref, series in zip("ABCDEFGHIJ", found, strict=False):
        column = "Value" if len(found) == 1 else f"Value #{ref}"
        for each in series:
            key = tuple(each["metric"].get(name, "") for name in shared)
            rows.setdefault(key, {}).update(
                {**each["metric"], column: float(each["values"][-1][1])}
            )
    return list(rows.values())

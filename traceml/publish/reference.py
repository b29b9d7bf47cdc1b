"""Writes `docs/metrics.md` from the catalogue: `python -m traceml.publish.reference`."""

from pathlib import Path

from traceml.publish.catalogue import CATALOGUE
from traceml.publish.metric import Metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

_HEAD = """\
# Metrics

Made from the catalogue (`traceml/publish/catalogue.py`) by `make generate`; a test keeps it true.

Served by the sidecar on `/metrics`, as classic text or OpenMetrics, whichever the scraper asks for.
Every series carries `run`. Units are seconds and bytes, ratios go from 0 to 1. A signal that was
not measured has no series; a rank that left takes its series with it. *The window* is the last 100
completed steps, tagged ones (`warmup` and the like) left out.

| name | type | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_row(metric) for metric in CATALOGUE)


def _row(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    labels = ", ".join(f"`{label}`" for label in metric.all_labels)
    return f"| `{name}` | {metric.type} | {labels} | {metric.help} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())

"""How the catalogue's names are said in OpenTelemetry's words.

Each name translates back to the Prometheus one by OpenTelemetry's published rules:
dots become underscores, the unit and `total` are appended.
"""

from traceml.publish.metric import Metric

# By the word that the Prometheus name ends with.
_UNITS = {
    "seconds": "s", "bytes": "By", "ratio": "1", "celsius": "Cel", "watts": "W", "hertz": "Hz",
}  # fmt: skip

# Where the semantic conventions have a name for what a label says.
_ATTRIBUTES = {"gpu_uuid": "hw.id"}


def name(metric: Metric) -> str:
    """`traceml.phase.median` for `traceml_phase_median_seconds`."""
    stem = metric.name.removesuffix(f"_{metric.unit}") if metric.unit in _UNITS else metric.name
    return stem.replace("_", ".")


def unit(metric: Metric) -> str:
    """Its unit in UCUM; what is counted stands in braces."""
    if metric.kind == "state":
        return "1"
    return _UNITS.get(metric.unit) or (f"{{{metric.counts}}}" if metric.counts else "")


def attributes(metric: Metric) -> tuple[str, ...]:
    """Its labels as attributes."""
    return tuple(_ATTRIBUTES.get(label, label) for label in metric.all_labels)

"""All alerts, in groups."""

from traceml.publish.rules.gone import GONE
from traceml.publish.rules.memory import MEMORY
from traceml.publish.rules.rule import Alert
from traceml.publish.rules.slow import SLOW

ALERTS: dict[str, tuple[Alert, ...]] = {
    "traceml-slow": SLOW,
    "traceml-memory": MEMORY,
    "traceml-gone": GONE,
}

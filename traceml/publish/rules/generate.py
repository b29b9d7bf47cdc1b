"""Writes what is made from the rules: `python -m traceml.publish.rules.generate`.

The rule files in `deploy/prometheus`, the resource in `deploy/kubernetes`, and the tables in
`docs/alerting.md`.
"""

import re
from pathlib import Path

from traceml.publish.rules.alerts import ALERTS
from traceml.publish.rules.document import ALERT_GROUPS, RECORDING_GROUPS, document, resource
from traceml.publish.rules.options import Options
from traceml.publish.rules.recording import RECORDING
from traceml.publish.rules.selector import Selector

_ROOT = Path(__file__).parents[3]
DEPLOY = _ROOT / "deploy" / "prometheus"
KUBERNETES = _ROOT / "deploy" / "kubernetes"
PAGE = _ROOT / "docs" / "alerting.md"

_DEFAULTS = Options()
# A Job's name names its run, and is unique in its namespace only.
_BY_NAMESPACE = Options(selector=Selector.parse('namespace!=""'))


def files() -> dict[Path, str]:
    """Everything, by where it belongs."""
    return {
        DEPLOY / "traceml-recording.yml": document(RECORDING_GROUPS, _DEFAULTS),
        DEPLOY / "traceml-alerts.yml": document(ALERT_GROUPS, _DEFAULTS),
        KUBERNETES / "prometheusrule.yaml": resource(
            {**RECORDING_GROUPS, **ALERT_GROUPS}, _BY_NAMESPACE
        ),
        PAGE: page(PAGE.read_text(encoding="utf-8")),
    }


def page(text: str) -> str:
    """The page with its tables as they should be."""
    return _between("alerts", _alert_table(), _between("recording", _recording_table(), text))


def _between(name: str, table: str, text: str) -> str:
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", text)


def _recording_table() -> str:
    rows = [f"| `{rule.name}` | {rule.help} |\n" for rule in RECORDING]
    return "| series | is |\n|---|---|\n" + "".join(rows)


def _alert_table() -> str:
    rows = [
        f"| [{alert.name}](runbooks/{alert.name}.md) | {alert.severity} | "
        f"{_DEFAULTS.text(alert.when)} | {_DEFAULTS.text(alert.hold)} |\n"
        for group in ALERTS.values()
        for alert in group
    ]
    return "| alert | severity | when | for |\n|---|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    for file, content in files().items():
        file.write_text(content, encoding="utf-8")

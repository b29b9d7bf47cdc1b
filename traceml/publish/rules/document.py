"""Rules as the YAML that Prometheus reads; a few kinds of scalars are all it takes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from textwrap import indent, wrap

from traceml.publish.rules.alerts import ALERTS
from traceml.publish.rules.options import Options
from traceml.publish.rules.recording import RECORDING
from traceml.publish.rules.rule import Alert, Groups, RecordingRule, Rule

_WIDTH = 100
_HEAD = "# Made by `traceml rules`, which can choose thresholds, windows and labels.\n"

RECORDING_GROUPS: Groups = {"traceml-recording": RECORDING}
ALERT_GROUPS: Groups = dict(ALERTS)


_RESOURCE = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
spec:
"""


def document(groups: Groups, options: Options) -> str:
    """A rule file."""
    return _HEAD + _groups(groups, options)


def resource(groups: Groups, options: Options, name: str = "traceml") -> str:
    """The same for the Prometheus operator, which takes rules from Kubernetes."""
    return _HEAD + _RESOURCE.format(name=name) + indent(_groups(groups, options), "  ")


def _groups(groups: Groups, options: Options) -> str:
    lines = ["groups:\n"]
    for name, rules in groups.items():
        lines.append(f"  - name: {name}\n    rules:\n")
        lines.extend(_item(_fields(rule, options)) for rule in rules)
    return "".join(lines)


def _fields(rule: Rule, options: Options) -> Iterator[str]:
    if isinstance(rule, RecordingRule):
        yield f"record: {rule.name}\n"
        yield f"expr: {_literal(options.expression(rule.expr))}"
        return
    yield f"alert: {rule.name}\n"
    yield f"expr: {_literal(options.expression(rule.expr))}"
    yield f"for: {options.text(rule.hold)}\n"
    if rule.keep and options.keeps_firing:
        yield f"keep_firing_for: {options.text(rule.keep)}\n"
    yield from _mappings(rule, options)


def _mappings(alert: Alert, options: Options) -> Iterator[str]:
    yield f"labels:\n{_mapping(alert.labels(options))}"
    yield f"annotations:\n{_mapping(alert.annotations(options))}"


def _item(fields: Iterable[str]) -> str:
    """An entry of a list of mappings: a dash before the first field, all others below it."""
    body = indent("".join(fields), " " * 8)
    return f"      - {body.lstrip(' ')}"


def _mapping(values: Mapping[str, str]) -> str:
    return indent("".join(f"{_key(key)}: {_scalar(text)}" for key, text in values.items()), "  ")


def _key(name: str) -> str:
    """Plain, but for what YAML would take for a truth value."""
    is_truth = name.lower() in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    return json.dumps(name) if is_truth else name


def _literal(text: str) -> str:
    """Lines as they are."""
    if "\n" not in text and "{" not in text and ": " not in text:
        return f"{text}\n"
    return f"|-\n{indent(text, '  ')}\n"


def _scalar(text: str) -> str:
    """A text: in quotes, or folded if it is long and nothing is lost by that."""
    lines = wrap(text, _WIDTH - 14, break_long_words=False, break_on_hyphens=False)
    if len(lines) < 2 or " ".join(lines) != text or any(line[:1] in " \t" for line in lines):
        return f"{json.dumps(text, ensure_ascii=False)}\n"
    return f">-\n{indent(chr(10).join(lines), '  ')}\n"

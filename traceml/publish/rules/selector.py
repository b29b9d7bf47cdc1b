"""Which series the rules are about: what users put between braces, checked."""

import re
from dataclasses import dataclass

from traceml.publish.catalogue import CATALOGUE

_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*")\s*', re.ASCII)
_ESCAPES = re.compile(r'(?<!\\)(?:\\\\)*\\[^\\"abfnrtv]')
_SERIES = re.compile(r"(?<![\w:])((?:\w+:)?traceml_[\w:]+)(\{?)")
_OWN = {label for metric in CATALOGUE for label in metric.labels}


@dataclass(frozen=True, slots=True)
class Selector:
    """Label matchers that go into every series of every rule.

    The labels named in them stay on what the rules make, beside `run`: so a selector
    holds for recorded series too, and tells runs of the same name apart.
    """

    matchers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # all but `run`, each once

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Of `job="training",cluster=~"a|b"`; ValueError for what is none."""
        matchers, labels, at = [], [], 0
        while at < len(text):
            found = _MATCHER.match(text, at)
            if found is None or (found.end() < len(text) and text[found.end()] != ","):
                raise ValueError(
                    f"cannot read {text[at:]!r}: label matchers look like "
                    'job="training",cluster=~"a|b"'
                )
            label, operator, value = found.groups()
            _check(label, operator, value)
            matchers.append(f"{label}{operator}{value}")
            labels.append(label)
            at = found.end() + 1
        return cls(tuple(matchers), tuple(dict.fromkeys(each for each in labels if each != "run")))

    def into(self, expression: str) -> str:
        """The expression with these matchers in every series of TraceML's."""
        if not self.matchers:
            return expression
        chosen = ",".join(self.matchers)
        return _SERIES.sub(
            lambda found: f"{found[1]}{{{chosen}" + ("," if found[2] else "}"), expression
        )


def _check(label: str, operator: str, value: str) -> None:
    if label == "instance":
        raise ValueError("instance differs from node to node of a run: choose by another label")
    if label in _OWN or label.startswith("__"):
        raise ValueError(f"{label} is not on every series: choose by a label of the target, or run")
    if "`" in value:
        raise ValueError(f"{value}: a backquote cannot be passed on")
    if _ESCAPES.search(value):
        raise ValueError(f"{value}: in PromQL a backslash is written twice")
    if "~" in operator:
        if "(?" in value.replace("(?:", "").replace("(?i)", ""):
            raise ValueError(f"{value}: Prometheus's regular expressions know no such group")
        try:
            re.compile(value[1:-1].replace("\\\\", "\\"))
        except re.error as error:
            raise ValueError(f"{value} is no regular expression: {error}") from None

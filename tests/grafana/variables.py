"""Variables filled as Grafana fills them, from what a Prometheus has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.grafana.boards import Board
from tests.prometheus import ask

_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)", re.DOTALL)
_QUERY_RESULT = re.compile(r"query_result\((.+)\)", re.DOTALL)
_USED = re.compile(r"\$\{([a-z_]\w*)(?::\w+)?\}|\$([a-z_]\w*)")  # not $1
_POINTS = 1000  # about as many as a panel is wide


@dataclass(frozen=True)
class Span:
    """The time range of a dashboard, and how often Prometheus scrapes."""

    start: float
    end: float
    scrape_seconds: float = 1.0

    @property
    def step(self) -> float:
        """Between two points of a panel."""
        return max((self.end - self.start) / _POINTS, self.scrape_seconds)

    @property
    def own(self) -> dict[str, str]:
        """Variables that Grafana has by itself."""
        interval, rate = self.step, max(self.step + self.scrape_seconds, 4 * self.scrape_seconds)
        values = {"__interval": interval, "__rate_interval": rate, "__range": self.end - self.start}
        return {name: f"{value * 1000:.0f}ms" for name, value in values.items()}


@dataclass(frozen=True)
class Filled:
    """A text in, with what the variables are out; and what could have been chosen."""

    values: Mapping[str, str]
    options: Mapping[str, list[str]] = field(default_factory=dict)

    def __call__(self, text: str, **more: str) -> str:
        values = {**self.values, **more}
        return _USED.sub(lambda found: values[found[1] or found[2]], text)


def fill(server: str, board: Board, span: Span, chosen: Mapping[str, str] | None = None) -> Filled:
    """In their order, as one may depend on another; the first option where nothing is chosen."""
    values, options = dict(span.own), {}
    for variable in board["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "query":
            asked = Filled(values)(variable["query"])
            options[name] = _options(server, asked, variable.get("regex", ""), span)
            values[name] = _value(variable, options[name], (chosen or {}).get(name, ""))
        else:
            values[name] = variable["query"]
    return Filled(values, options)


def _options(server: str, asked: str, regex: str, span: Span) -> list[str]:
    if found := _LABEL_VALUES.fullmatch(asked):
        given = {"match[]": found[1], "start": span.start, "end": span.end}
        return list(map(str, ask(server, f"label/{found[2]}/values", **given)))
    found = _QUERY_RESULT.fullmatch(asked)
    assert found, asked
    result = ask(server, "query", query=found[1], time=span.end)["result"]
    texts = [_as_text(series["metric"], series["value"]) for series in result]
    pattern = re.compile(regex.strip("/"))
    return [match[1] for match in map(pattern.search, texts) if match]


def _as_text(labels: Mapping[str, str], value: list[object]) -> str:
    pairs = ",".join(f'{name}="{text}"' for name, text in labels.items())
    return f"{{{pairs}}} {value[1]} {value[0]}"


def _value(variable: Mapping[str, object], options: list[str], chosen: str) -> str:
    if variable["includeAll"] and not chosen:
        return str(variable["allValue"])
    value = chosen or (options[0] if options else "")
    return re.escape(value).replace("\\", "\\\\") if variable["multi"] else value

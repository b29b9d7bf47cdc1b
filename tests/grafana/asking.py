"""What a dashboard gets for its queries, from a real Prometheus."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests import prometheus
from tests.grafana import boards
from tests.grafana.boards import Asked
from tests.grafana.variables import Filled, Span, fill

Series = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A dashboard as somebody looks at it: a time range, and what was chosen."""

    server: str
    name: str
    span: Span
    filled: Filled

    @classmethod
    def of(
        cls, server: str, name: str, span: Span, chosen: Mapping[str, str] | None = None
    ) -> "View":
        return cls(server, name, span, fill(server, boards.read(name), span, chosen))

    def series(self, asked: Asked, **more: str) -> list[Series]:
        """Series with a value or more; without those that are no number."""
        expr = self.filled(asked.expr, **more)
        if asked.instant:
            found = prometheus.ask(self.server, "query", query=expr, time=self.span.end)["result"]
            found = [{**each, "values": [each["value"]]} for each in found]
        else:
            found = prometheus.ask(
                self.server, "query_range", query=expr,
                start=self.span.start, end=self.span.end,
                step=max(self.span.step, asked.least_step),
            )["result"]  # fmt: skip
        return [each for each in found if any(_is_number(text) for _, text in each["values"])]

    def exemplars(self, asked: Asked) -> list[Series]:
        """What leads to a trace."""
        found: list[Series] = prometheus.ask(
            self.server, "query_exemplars", query=self.filled(asked.expr),
            start=self.span.start, end=self.span.end,
        )  # fmt: skip
        return [exemplar for each in found for exemplar in each["exemplars"]]

    def empty(self) -> list[str]:
        """The queries that get nothing."""
        return [
            f"{self.name}, {asked.panel} {more}: {self.filled(asked.expr, **more)}"
            for asked in boards.asked(self.name)
            for more in self.repeated(asked.repeat)
            if not self.series(asked, **more)
        ]

    def repeated(self, variable: str) -> list[dict[str, str]]:
        """Of a panel that is there once for each value of a variable: the values."""
        if not variable:
            return [{}]
        return [{variable: option} for option in self.filled.options[variable]]


def _is_number(text: str) -> bool:
    return math.isfinite(float(text))

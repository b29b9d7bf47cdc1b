"""How a panel shows a value: its unit, its words, its colour. As little as our dashboards need."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from traceml import units
from traceml.report.svg import INK

COLOURS = {
    "green": "#4c9f50", "orange": "#ef8f22", "red": "#d63b43", "blue": "#3274d9", "text": INK,
    "purple": "#9b51c9",
}  # fmt: skip
PALETTE = (
    "#5a9e52", "#d9a83a", "#4e86c8", "#d0643f", "#8a63b8", "#3fa7a0", "#b5487a", "#7d7d3a",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What a panel says of one of its series or columns."""

    properties: Mapping[str, Any]

    @classmethod
    def of(cls, panel: Mapping[str, Any], name: str) -> "Look":
        """Its defaults, and what it says of this name."""
        properties = dict(panel["fieldConfig"]["defaults"])
        for override in panel["fieldConfig"]["overrides"]:
            if _matches(override["matcher"], name):
                properties |= {each["id"]: each["value"] for each in override["properties"]}
        return cls(properties)

    @property
    def fixed(self) -> str | None:
        """The colour it always has."""
        colour: str | None = self.properties.get("color", {}).get("fixedColor")
        return COLOURS.get(colour, colour) if colour else None

    @property
    def limits(self) -> list[tuple[float, str]]:
        """From where on it has which colour."""
        steps = self.properties["thresholds"]["steps"]
        return [(float("-inf") if s["value"] is None else s["value"], s["color"]) for s in steps]

    def colour(self, value: float) -> str:
        return COLOURS[[colour for limit, colour in self.limits if value >= limit][-1]]

    def words(self, value: str | float) -> tuple[str, str | None]:
        """Text and colour that stand for a value, if any do; else itself."""
        plain = value if isinstance(value, str) else f"{value:g}"
        for mapping in self.properties.get("mappings", []):
            if found := mapping["options"].get(plain):
                return found.get("text", plain), COLOURS.get(found.get("color", ""))
        return (value if isinstance(value, str) else self.figure(value)), None

    def figure(self, value: float) -> str:
        decimals = self.properties.get("decimals")
        if decimals is not None:
            return f"{value:.{decimals}f}"
        return figure(self.properties["unit"], value)


def figure(unit: str, value: float) -> str:
    """A number with its unit."""
    if unit == "s":
        return units.seconds(value) if value < 60 else units.duration(value)
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return units.bytes_(value)
    if unit == "dateTimeFromNow":
        return f"{units.duration(time.time() - value / 1000)} ago"
    return f"{value:.3g}{ {'suffix:/s': ' /s', 'celsius': ' °C', 'watt': ' W'}.get(unit, '') }"


def named(legend: str, labels: Mapping[str, str]) -> str:
    """A series by its labels."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend).strip()


def _matches(matcher: Mapping[str, str], name: str) -> bool:
    if matcher["id"] == "byName":
        return matcher["options"] == name
    return bool(re.search(matcher["options"].strip("/"), name))

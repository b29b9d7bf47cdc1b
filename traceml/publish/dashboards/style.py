"""How values look: colours, limits, words for states. The same on every dashboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import common, dashboard

from traceml.diagnosis.finding import SEVERITIES, title
from traceml.publish.dashboards.states import EVERY
from traceml.publish.rules.options import Options
from traceml.report.pictures import COLOURS

A_SECOND = "suffix:/s"
GOOD, WARNING, CRITICAL = "green", "orange", "red"

Property = dashboard.DynamicConfigValue


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a value is no longer good, and from where on it is bad."""

    warning: float | None = None
    critical: float | None = None

    def build(self) -> builders.ThresholdsConfig:
        """As Grafana has them."""
        above = ((WARNING, self.warning), (CRITICAL, self.critical))
        steps = [dashboard.Threshold(color=GOOD)]
        steps += [
            dashboard.Threshold(limit, colour) for colour, limit in above if limit is not None
        ]
        return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


NO_LIMITS = Limits()
SCORE = Limits(1, 2)  # of what is tolerated; it holds, and twice as much is critical
LOST = Limits(Options().lost_share, 2 * Options().lost_share)


def legend(*calculated: str) -> common_builders.VizLegendOptions:
    """Below the panel: a list, or a table with figures of each series."""
    mode = common.LegendDisplayMode.TABLE if calculated else common.LegendDisplayMode.LIST
    return (
        common_builders.VizLegendOptions()
        .show_legend(True)
        .display_mode(mode)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs(list(calculated))
    )


def words(texts: Mapping[str, str], colours: Mapping[str, str] | None = None) -> dashboard.ValueMap:
    """Texts in place of values."""
    shown = {
        value: dashboard.ValueMappingResult(text=text, color=(colours or {}).get(value))
        for value, text in texts.items()
    }
    return dashboard.ValueMap(shown)


SEVERITY_NUMBERS = words(
    {str(number): name for number, name in enumerate(SEVERITIES)},
    {str(number): colour for number, colour in enumerate((GOOD, WARNING, CRITICAL))},
)
STATE_WORDS = words({state: title(state) for state in EVERY})
WHY_WORDS = words({state: told.why for state, told in EVERY.items()})
RUNBOOK_WORDS = words({state: told.runbook for state, told in EVERY.items() if told.runbook})


def fixed(colour: str) -> Property:
    """One colour, whatever the value."""
    return Property("color", dashboard.FieldColor(dashboard.FieldColorModeId.FIXED, colour))


def phase_colours() -> Sequence[tuple[str, Property]]:
    """Each phase in the colour that it has in the summary, too."""
    return [(phase, fixed(colour)) for phase, colour in COLOURS.items()]

"""The table of a comparison: one list of rows that text and markdown show."""

from collections.abc import Iterator
from dataclasses import dataclass

from traceml.diagnosis.finding import title
from traceml.report.compare.comparison import Comparison
from traceml.report.compare.context import Fact, Shift
from traceml.report.compare.effects import MEMORY, SLOW_STEPS, STEP, Effect
from traceml.report.compare.figures import amount, percent, signed_amount, signed_percent
from traceml.report.compare.side import Diagnosed

_LABELS = {
    STEP: "Total step",
    SLOW_STEPS: "Slow steps, on top",
    "samples_per_second": "Samples/s per rank",
    "rank_skew": "Rank skew",
    "gpu_utilization": "GPU utilisation",
    "host_cpu_utilization": "Host CPU",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One metric, ready to be shown."""

    metric: str
    base: str
    candidate: str
    change: str
    noise: str = ""
    says: str = ""


def rows(compared: Comparison) -> Iterator[Row]:
    """The diagnosis, times, phases, memory, and what may explain them."""
    yield _shift_row(compared.shift)
    for effect in compared.effects:
        in_step = effect not in (compared.effects.step, compared.effects.memory)
        says = effect.says if compared.verdict.comparable else ""
        yield _effect_row(effect, says, in_step=in_step)
    for fact in compared.facts:
        yield _fact_row(fact)


def _effect_row(effect: Effect, says: str, *, in_step: bool) -> Row:
    ratio = "" if effect.ratio is None else f" ({signed_percent(effect.ratio)})"
    noise = amount(effect.noise, effect.unit) if in_step else percent(effect.relative(effect.noise))
    return Row(
        _label(effect),
        amount(effect.base, effect.unit),
        amount(effect.candidate, effect.unit),
        signed_amount(effect.change, effect.unit) + ratio,
        f"± {noise}",
        says,
    )


def _label(effect: Effect) -> str:
    if effect.metric == MEMORY:
        return f"Memory ({'resident' if effect.kind == 'rss' else effect.kind})"
    return _LABELS.get(effect.metric, f"  {effect.metric}")


def _fact_row(fact: Fact) -> Row:
    base, new = (
        "-" if value is None else amount(value, fact.unit) for value in (fact.base, fact.candidate)
    )
    return Row(_LABELS[fact.metric], base, new, _fact_change(fact))


def _fact_change(fact: Fact) -> str:
    if fact.base is None or fact.candidate is None:
        return ""
    change = fact.candidate - fact.base
    if fact.unit == "ratio":
        return signed_amount(change, fact.unit)
    return signed_percent(change / fact.base) if fact.base > 0 else ""


def _shift_row(shift: Shift) -> Row:
    return Row("Primary diagnosis", _state(shift.base), _state(shift.candidate), shift.says)


def _state(diagnosed: Diagnosed | None) -> str:
    if diagnosed is None:
        return "-"
    who = "" if diagnosed.rank is None else f" r{diagnosed.rank}"
    return title(diagnosed.state) + who

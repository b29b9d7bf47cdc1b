"""A comparison as a document, for programs. What was not measured is left out."""

from collections.abc import Mapping
from typing import Any

from traceml import __version__
from traceml.report.compare.cause import Cause
from traceml.report.compare.comparison import Comparison
from traceml.report.compare.context import Fact
from traceml.report.compare.effects import Effect
from traceml.report.compare.side import Diagnosed, Side

SCHEMA_VERSION = 1
_OUTCOMES = {0: "passed", 1: "failed", 3: "undecided"}


def comparison_record(compared: Comparison) -> dict[str, Any]:
    """Everything that the text says, as figures."""
    found = compared.verdict
    advice = found.advice
    return _known(
        {
            "schema_version": SCHEMA_VERSION,
            "traceml": __version__,
            "verdict": found.state,
            "confidence": found.confidence,
            "summary": found.summary,
            "causes": [_cause(cause) for cause in compared.causes],
            "doubts": list(found.doubts),
            "advice": None
            if advice is None
            else _known(
                {"summary": advice.summary, "steps": advice.steps, "baselines": advice.baselines}
            ),
            "bases": [_side(side) for side in compared.bases],
            "candidate": _side(compared.candidate),
            "metrics": {effect.metric: _effect(effect) for effect in compared.effects},
            "diagnosis": _known(
                {
                    "base": _diagnosis(compared.shift.base),
                    "candidate": _diagnosis(compared.shift.candidate),
                    "says": compared.shift.says or None,
                }
            ),
            "context": {fact.metric: _fact(fact) for fact in compared.facts},
            "changed": [
                {"what": each.what, "base": each.base, "candidate": each.candidate}
                for each in compared.changed
            ],
            "threshold_ratio": compared.rules.threshold,
            "run_noise_ratio": compared.run_noise,
            "run_noise_learned": len(compared.bases) > 1,
            "gate": [
                {"check": check.what, "outcome": _OUTCOMES[check.outcome], "why": check.why}
                for check in compared.checks
            ],
            "exit_code": compared.exit_code,
        }
    )


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.name, "tool": side.tool, "steps": side.steps}


def _cause(cause: Cause) -> dict[str, Any]:
    return _known(
        {
            "metric": cause.metric,
            "summary": cause.summary,
            "phase": cause.phase,
            "rank": cause.rank,
            "change": cause.change,
            "share_ratio": cause.share,
        }
    )


def _effect(effect: Effect) -> dict[str, Any]:
    return _known(
        {
            "unit": effect.unit,
            "kind": effect.kind or None,
            "base": effect.base,
            "candidate": effect.candidate,
            "change": effect.change,
            "change_ratio": effect.ratio,
            "noise": effect.noise,
            "equality_noise": effect.equality_noise,
            "says": effect.says,
        }
    )


def _fact(fact: Fact) -> dict[str, Any]:
    return _known({"unit": fact.unit, "base": fact.base, "candidate": fact.candidate})


def _diagnosis(diagnosed: Diagnosed | None) -> dict[str, Any] | None:
    if diagnosed is None:
        return None
    return _known(
        {
            "state": diagnosed.state,
            "severity": diagnosed.severity,
            "rank": diagnosed.rank,
            "phase": diagnosed.phase,
        }
    )


def _known(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}

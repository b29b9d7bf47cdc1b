"""Prometheus' own unit tests of rules, written from typed cases. JSON is YAML enough for them."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INTERVAL = "1m"


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert as Alertmanager gets it, but for its runbook."""

    severity: str
    summary: str
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """What is scraped, one value a minute, and the alerts of one name after `minutes`."""

    alert: str
    what: str
    series: Mapping[str, str]
    fires: tuple[Fired, ...] = ()
    minutes: int = 24

    @property
    def as_test(self) -> dict[str, Any]:
        expected = [
            {
                "exp_labels": {"run": "demo", "severity": each.severity, **each.labels},
                "exp_annotations": {
                    "summary": each.summary,
                    "description": each.description,
                    "runbook_url": f"docs/runbooks/{self.alert}.md",
                },
            }
            for each in self.fires
        ]
        check = {
            "eval_time": f"{self.minutes}m",
            "alertname": self.alert,
            "exp_alerts": expected,
        }
        return {
            "name": f"{self.alert}: {self.what}",
            "interval": INTERVAL,
            "input_series": given(self.series),
            "alert_rule_test": [check],
        }


def given(series: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def run_tests(
    promtool: str, folder: Path, rules: Iterable[Path], tests: list[dict[str, Any]]
) -> "subprocess.CompletedProcess[str]":
    """Let promtool judge."""
    file = folder / "tests.json"
    document = {
        "rule_files": [str(rule) for rule in rules],
        "evaluation_interval": INTERVAL,
        "tests": tests,
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    command = [promtool, "test", "rules", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=170)

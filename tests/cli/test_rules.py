"""`traceml rules`: what is chosen is in them, and what can't be chosen is told."""

import json
import re
import subprocess
import urllib.parse
from pathlib import Path

import pytest
import yaml

from tests.launching import eventually, fetch
from tests.prometheus import fixed, loaded, running
from traceml.cli.main import main
from traceml.publish.rules.document import ALERT_GROUPS, RECORDING_GROUPS
from traceml.publish.rules.duration import Duration
from traceml.publish.rules.options import Options
from traceml.publish.rules.rule import Alert, RecordingRule

GROUPS = {**RECORDING_GROUPS, **ALERT_GROUPS}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    return capsys.readouterr().out


def test_recording_rules_and_alerts_can_be_had_apart(capsys: pytest.CaptureFixture[str]) -> None:
    both = printed(capsys)
    recording, alerts = printed(capsys, "--recording"), printed(capsys, "--alerts")
    assert "alert:" not in recording
    assert "record:" not in alerts
    body = alerts.split("groups:\n")[1]
    assert both == recording + body


def test_what_is_chosen_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys,
        "--lost-share=0.15", "--rate-window=2m", "--for=20m", "--stalled-after=7m",
        "--never-started-after=1h", "--missing-after=3m", "--memory-window=45m",
        "--memory-horizon=4h", "--runbook-base=https://wiki.example.org/", "--label=team=ml",
        '--selector=job="training"',
    )  # fmt: skip
    for piece in (
        'lost:ratio{job="training"} > 0.15\n', 'lost:ratio{job="training"} > 0.3\n', "[2m]",
        "for: 20m\n", "for: 30m\n", "keep_firing_for: 10m\n", "> 420\n", "> 3600\n",
        "for: 3m\n", "[45m], 14400)", 'team: "ml"\n', "by (run, job)",
        'runbook_url: "https://wiki.example.org/TraceMLStalled.md"\n',
    ):  # fmt: skip
        assert piece in text
    assert "keep_firing_for" not in printed(capsys, "--no-keep-firing-for")


def test_for_the_operator_they_are_the_same_in_a_resource(
    capsys: pytest.CaptureFixture[str],
) -> None:
    resource = yaml.safe_load(printed(capsys, "--kubernetes", "--lost-share=0.15"))
    assert (resource["kind"], resource["metadata"]) == ("PrometheusRule", {"name": "traceml"})
    assert resource["spec"] == yaml.safe_load(printed(capsys, "--lost-share=0.15"))
    for part in ("recording", "alerts"):  # applied one after the other, both stay
        of_part = yaml.safe_load(printed(capsys, "--kubernetes", f"--{part}"))
        assert of_part["metadata"] == {"name": f"traceml-{part}"}


def test_a_hold_within_the_window_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--for=2m", "--rate-window=5m"]) == 0
    assert capsys.readouterr().err == (
        "traceml: warning: --for 2m is not longer than --rate-window 5m: a single slow step can "
        "raise an alert\n"
    )


def test_they_can_be_written_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], promtool: str
) -> None:
    file = tmp_path / "rules.yml"
    assert main(["rules", "--output", str(file)]) == 0
    assert capsys.readouterr().out == ""
    checked = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True)
    assert checked.returncode == 0
    assert main(["rules", "--output", str(file / "below")]) == 73
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--for", "soon"], "argument --for: 'soon' is no duration above 0"),
        (["--rate-window", "0s"], "argument --rate-window: '0s' is no duration"),
        (["--selector", "job=x"], "argument --selector: cannot read 'job=x'"),
        (["--selector", 'instance="x"'], "instance differs from node to node"),
        (["--label", "team"], "argument --label: 'team' is no label"),
        (["--label", "run=x"], "argument --label: run says something of the alert already"),
        (["--label", "a=1", "--label", "a=2"], "--label a is given twice"),
        (["--lost-share", "20"], "argument --lost-share: '20' is no share of wall time"),
        (["--runbook-base", "a b"], "argument --runbook-base: 'a b' is no URL or path"),
        (["--recording", "--alerts"], "not allowed with argument"),
        (["--thresholds"], "unrecognized arguments: --thresholds"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["rules", *arguments]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.startswith("traceml: error: ")
    assert told.endswith("(see traceml rules --help)\n")
    assert len(told.splitlines()) == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rules", "--help"])
    text = capsys.readouterr().out
    for piece in ("rule_files", "--selector 'job=", "promtool check rules", "(default: 5m)"):
        assert piece in text


def test_prometheus_reads_them_as_they_are_meant(prometheus: str, tmp_path: Path) -> None:
    """The file is written by hand, so it is read by Prometheus and compared field by field."""
    odd = 'two  spaces, "quotes", \\ and: # ünicode 💥\tno'
    file = tmp_path / "rules.yml"
    assert main(["rules", "--output", str(file), "--label", f"odd={odd}", "--label", "on=yes"]) == 0
    options = Options(labels=(("odd", odd), ("on", "yes")))
    with running(prometheus, tmp_path, fixed(1), rules=[file]) as server:
        found = eventually(lambda: loaded(server))

        def formatted(expression: str) -> str:
            asked = urllib.parse.urlencode({"query": expression})
            text: str = json.loads(fetch(f"{server}/api/v1/format_query?{asked}"))["data"]
            return re.sub(r"\s+", "", text)

        assert {name: len(rules) for name, rules in found.items()} == {
            name: len(rules) for name, rules in GROUPS.items()
        }
        pairs = [pair for name in GROUPS for pair in zip(GROUPS[name], found[name], strict=True)]
        for rule, read in pairs:
            assert read["name"] == rule.name
            assert formatted(read["query"]) == formatted(options.expression(rule.expr))
            if isinstance(rule, RecordingRule):
                continue
            assert isinstance(rule, Alert)
            assert read["labels"] == rule.labels(options)
            assert read["annotations"] == rule.annotations(options)
            for field, text in (("duration", rule.hold), ("keepFiringFor", rule.keep)):
                assert read[field] == (Duration.parse(options.text(text)).seconds if text else 0)

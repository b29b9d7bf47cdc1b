"""Every alert in Prometheus's own unit tests: when it fires, with which words, when it does not."""

from pathlib import Path

from tests.publish.rules.cases import CASES
from tests.publish.rules.promtool import Case, Fired, run_tests
from tests.publish.rules.scrapes import constant, lost, rank, state
from traceml.cli.main import main
from traceml.publish.rules.alerts import ALERTS
from traceml.publish.rules.generate import DEPLOY

RULES = (DEPLOY / "traceml-recording.yml", DEPLOY / "traceml-alerts.yml")


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    declared = {(alert.name, alert.severity) for group in ALERTS.values() for alert in group}
    firing = {(case.alert, fired.severity) for case in CASES for fired in case.fires}
    silent = {case.alert for case in CASES if not case.fires}
    assert firing == declared
    assert silent == {name for name, _ in declared}


def test_alerts_fire_with_these_words_when_they_should_and_only_then(
    promtool: str, tmp_path: Path
) -> None:
    tested = run_tests(promtool, tmp_path, RULES, [case.as_test for case in CASES])
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_case_with_other_words_fails(promtool: str, tmp_path: Path) -> None:
    wrong = Case(
        "TraceMLStraggler", "wrong", {**state(), **lost(9, 1)}, (Fired("warning", "", ""),)
    )
    assert run_tests(promtool, tmp_path, RULES, [wrong.as_test]).returncode == 1


def test_a_selector_keeps_runs_of_the_same_name_apart_and_leaves_others_out(
    promtool: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yml"
    assert main(["rules", "--selector", 'cluster=~"a|b"', "--output", str(rules)]) == 0
    slow = {**state(), **rank(1), **lost(9, 1)}
    scraped = {
        series.replace("{", f'{{cluster="{cluster}",'): value
        for cluster in ("a", "b", "c")
        for series, value in slow.items()
        if cluster != "b" or "lost" not in series
    }
    scraped |= {
        series.replace("{", '{cluster="b",'): constant(5) for series in lost(0, 1)
    }  # of the same rank in another cluster, and it costs nothing
    case = Case(
        "TraceMLStraggler",
        "of cluster a",
        scraped,
        (
            Fired(
                "warning",
                "Rank 1 of run demo holds back the others in forward",
                "Over 5m the other ranks waited 15% of the time for rank 1 (node 0, a:1) in "
                "forward; 10% is tolerated. Next: compare this rank with the others: clocks and "
                "temperature of its device, other processes on it, the length of its inputs.",
                {"rank": "1", "phase": "forward", "cluster": "a"},
            ),
        ),
    )
    tested = run_tests(promtool, tmp_path, [rules], [case.as_test])
    assert tested.returncode == 0, tested.stdout + tested.stderr

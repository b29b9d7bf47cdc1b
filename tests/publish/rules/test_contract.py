"""Expressions that users may have written into rules of their own, as the documents show them."""

import json
from pathlib import Path

from tests.publish.rules.promtool import given, run_tests
from tests.publish.rules.scrapes import Series, constant, expected, lost, one, score, state, step

# An expression, what is scraped when it holds, and the labels of what it then says.
CONTRACT: tuple[tuple[str, Series, dict[str, str]], ...] = (
    (
        "sum by (run, rank, phase) (rate(traceml_straggler_lost_seconds_total[5m])) > 0.1",
        lost(9, 1),
        {"run": "demo", "rank": "1", "phase": "forward"},
    ),
    (
        'traceml_diagnosis_score{domain="step_time", state="INPUT_BOUND"} >= 1',
        score("step_time", "INPUT_BOUND", 1.5),
        {"run": "demo", "job": "traceml", "instance": "a:1", "domain": "step_time",
         "state": "INPUT_BOUND"},
    ),
    (
        "(time() - traceml_last_step_timestamp_seconds) > on(run,instance) "
        "clamp_min(20 * traceml_step_median_seconds, 300) "
        'and on(run,instance) traceml_run_state{state="running"} == 1',
        {
            **state(),
            **one("traceml_last_step_timestamp_seconds", constant(0)),
            **one("traceml_step_median_seconds", constant(0.1)),
        },
        {"run": "demo", "instance": "a:1"},
    ),
    (
        "(time() - traceml_run_start_timestamp_seconds > 900) "
        "unless on(run,instance) traceml_last_step_timestamp_seconds",
        expected(2, constant(0)),
        {"run": "demo", "job": "traceml", "instance": "a:1"},
    ),
    (
        "traceml_ranks_expected - traceml_ranks_reporting > 0",
        expected(2, constant(1)),
        {"run": "demo", "job": "traceml", "instance": "a:1"},
    ),
    (
        'quantile by (run, phase) (0.5, traceml_rank_phase_seconds{phase="forward"})',
        {**step(0, 0.05, 0.04), **step(1, 0.06, 0.03, "b:1", 1)},
        {"run": "demo", "phase": "forward"},
    ),
)  # fmt: skip


def test_an_expression_that_follows_the_contract_says_what_it_should(
    promtool: str, tmp_path: Path
) -> None:
    rules = tmp_path / "own.json"
    alerts = [{"alert": f"Own{n}", "expr": expr} for n, (expr, _, _) in enumerate(CONTRACT)]
    rules.write_text(json.dumps({"groups": [{"name": "own", "rules": alerts}]}))
    tests = [
        {
            "interval": "1m",
            "input_series": given(scraped),
            "alert_rule_test": [
                {
                    "eval_time": "20m",
                    "alertname": f"Own{number}",
                    "exp_alerts": [{"exp_labels": labels}],
                }
            ],
        }
        for number, (_, scraped, labels) in enumerate(CONTRACT)
    ]
    tested = run_tests(promtool, tmp_path, [rules], tests)
    assert tested.returncode == 0, tested.stdout + tested.stderr

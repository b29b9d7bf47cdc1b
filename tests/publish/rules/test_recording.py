"""Recorded values are those that one sidecar over all ranks would have."""

from pathlib import Path
from typing import Any

from tests.publish.rules.jobs import PHASES, TOLERATED, Job, any_job, job_of_equals
from tests.publish.rules.promtool import given, run_tests
from tests.publish.rules.scrapes import constant
from traceml.publish.rules.generate import DEPLOY
from traceml.publish.rules.recording import RECORDING
from traceml.snapshot import Spread

JOBS = [*(any_job(seed) for seed in range(60)), job_of_equals()]
OWN_PHASES = [phase for phase in PHASES if phase != "collective_wait"]


def sample(name: str, value: float, **labels: str) -> dict[str, Any]:
    shown = ", ".join(f'{key}="{text}"' for key, text in labels.items())
    return {"labels": f"{name}{{{shown}}}", "value": value}


def spread_samples(level: str, what: str, of: Spread, **labels: str) -> list[dict[str, Any]]:
    figures = {
        "median_seconds": of.median,
        "worst_seconds": of.worst,
        "worst_rank": of.worst_rank,
        "skew_ratio": of.skew_ratio,
    }
    return [
        sample(f"{level}:traceml_{what}_{figure}", value, **labels)
        for figure, value in figures.items()
        if value is not None
    ]


def expected(job: Job) -> list[dict[str, Any]]:
    found = spread_samples("run", "step", job.step, run=job.name)
    for phase in PHASES:
        labels = {"run": job.name, "phase": phase}
        spread = job.phase(phase)
        found += spread_samples("run_phase", "phase", spread, **labels)
        share = spread.median / job.step.median
        found.append(sample("run_phase:traceml_phase_share_ratio", share, **labels))
    places = {rank.number: rank for rank in job.ranks}
    for phase in OWN_PHASES:
        for number, score in job.scores(phase).items():
            rank = places[number]
            labels = {"node": str(rank.node), "group": rank.group, "rank": str(number)}
            name = "run_rank_phase:traceml_straggler_score"
            found.append(sample(name, score, run=job.name, phase=phase, **labels))
            found += across_nodes(job, score, {"phase": phase, "rank": str(number)}, rank.node)
    return found


def across_nodes(job: Job, score: float, labels: dict[str, str], node: int) -> list[dict[str, Any]]:
    """What is told of a rank that no node alone could tell."""
    if len({rank.node for rank in job.ranks}) == 1:
        return []
    lost = sample(
        "run_rank_phase:traceml_time_lost:ratio", score * TOLERATED, run=job.name, **labels
    )
    named = sample(
        "run_rank_phase:traceml_straggler_across_nodes",
        min(int(score), 2), run=job.name, node=str(node), **labels,
    )  # fmt: skip
    return [lost, named] if score >= 1 else [lost]


def test_the_jobs_are_of_many_kinds() -> None:
    accused = [job for job in JOBS if any(job.scores(phase) for phase in OWN_PHASES)]
    assert 10 < len(accused) < 50
    assert {len(job.ranks) for job in JOBS} == set(range(1, 10))
    assert any(
        score > 1 / TOLERATED / 10 for job in accused for score in job.scores("forward").values()
    )


def test_medians_worst_ranks_and_culprits_are_those_of_one_sidecar_over_all_ranks(
    promtool: str, tmp_path: Path
) -> None:
    names = {entry["labels"].split("{")[0] for job in JOBS for entry in expected(job)}
    tests = [
        {
            "interval": "1m",
            "input_series": given({name: constant(value) for name, value in job.series()}),
            "promql_expr_test": [
                {
                    "expr": f'{{__name__=~"{"|".join(sorted(names))}"}}',
                    "eval_time": "2m",
                    "exp_samples": expected(job),
                }
            ],
        }
        for job in JOBS
    ]
    tested = run_tests(promtool, tmp_path, [DEPLOY / "traceml-recording.yml"], tests)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_of_ranks_without_series_of_their_own_their_nodes_tell(
    promtool: str, tmp_path: Path
) -> None:
    nodes = {
        f'{name}{{run="job",instance="{node}:1"{labels}}}': constant(value)
        for node, value in ((0, 0.2), (1, 0.3))
        for name, labels in (
            ("traceml_step_median_seconds", ""),
            ("traceml_phase_median_seconds", ',phase="forward"'),
        )
    }
    found = [
        sample("run:traceml_step_median_seconds", 0.3, run="job"),
        sample("run_phase:traceml_phase_median_seconds", 0.3, run="job", phase="forward"),
        sample("run_phase:traceml_phase_share_ratio", 1, run="job", phase="forward"),
    ]
    test = {
        "interval": "1m",
        "input_series": given(nodes),
        "promql_expr_test": [
            {"expr": '{__name__=~"run.*:.+"}', "eval_time": "2m", "exp_samples": found}
        ],
    }
    tested = run_tests(promtool, tmp_path, [DEPLOY / "traceml-recording.yml"], [test])
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_names_say_which_labels_are_left() -> None:
    for rule in RECORDING:
        level, metric, *operation = rule.name.split(":")
        assert level in ("run", "run_rank", "run_phase", "run_rank_phase"), rule.name
        assert metric.startswith("traceml_")
        assert operation in ([], ["rate"], ["ratio"])

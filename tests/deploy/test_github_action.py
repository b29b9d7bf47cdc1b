"""The scripts of the GitHub Action, as a job runs them; `gh` alone is a stand-in."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import require_program
from tests.report.compare.made import Workload, made_summary, write_summary

ACTION = Path(__file__).parents[2] / "deploy" / "github-action"
CALM = Workload(step_noise=0.02, hiccups=0.0, run_noise=0.002)
GATE = {
    "THRESHOLD": "5%",
    "FAIL_ON": "regression",
    "MAX": "",
    "SAME_ENVIRONMENT": "false",
    "NAME": "traceml",
}

# Knows of three runs; 12 is the one that asks, and 11 has kept no artifact.
GH = """\
#!/bin/sh
echo "$@" >> calls.txt
case "$1 $2" in
"run list") printf '12\\n11\\n10\\n' ;;
"run download")
    [ "$3" = 11 ] && exit 1
    while [ "$1" != --dir ]; do shift; done
    mkdir -p "$2" && echo '{}' > "$2/final_summary.json" ;;
esac
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a candidate that is slower, and programs on its path."""
    require_program("bash")
    require_program("jq")
    programs = tmp_path / "bin"
    programs.mkdir()
    traceml = f'#!/bin/sh\nexec "{sys.executable}" -m traceml "$@"\n'
    for name, text in (("traceml", traceml), ("gh", GH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    rng = np.random.default_rng(6)
    write_summary(tmp_path / "candidate", made_summary(rng, CALM.slower("forward", 0.3), "new"))
    for number in range(3):
        write_summary(tmp_path / "main" / str(number), made_summary(rng, CALM, "main"))
    return tmp_path


def run(job: Path, script: str, *arguments: str, **variables: str) -> "Finished":
    environment: Mapping[str, str] = {
        **os.environ,
        **GATE,
        "PATH": f"{job / 'bin'}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(job / "page.md"),
        "GITHUB_OUTPUT": str(job / "output.txt"),
        **variables,
    }
    command = [str(ACTION / script), *arguments]
    return subprocess.run(command, cwd=job, env=environment, capture_output=True, text=True)


Finished = subprocess.CompletedProcess[str]


def output(job: Path) -> str:
    return (job / "output.txt").read_text()


def test_a_regression_fails_the_job_and_stands_on_its_page(job: Path) -> None:
    finished = run(job, "compare.sh", "main", "candidate")
    assert finished.returncode == 1, finished.stderr
    assert finished.stdout.startswith("REGRESSION (high confidence)  forward")
    assert "learned from 3 baselines" in " ".join(finished.stdout.split())
    assert (job / "page.md").read_text().startswith("### REGRESSION")
    assert output(job) == "verdict=REGRESSION\n"


@pytest.mark.parametrize(
    ("variables", "exit_code"),
    [
        ({"FAIL_ON": ""}, 0),
        ({"FAIL_ON": "", "MAX": "memory=10% step_time=10%"}, 1),
        ({"THRESHOLD": "60%"}, 0),
        ({"FAIL_ON": "slow"}, 2),
    ],
)
def test_the_gate_is_the_job_s_own(job: Path, variables: dict[str, str], exit_code: int) -> None:
    assert run(job, "compare.sh", "main", "candidate", **variables).returncode == exit_code


def test_the_first_run_has_nothing_to_be_compared_with(job: Path) -> None:
    finished = run(job, "compare.sh", "nowhere", "candidate")
    assert finished.returncode == 0, finished.stderr
    assert output(job) == "verdict=NO BASELINE\n"
    assert "no baseline yet" in (job / "page.md").read_text()


def test_the_last_runs_of_the_branch_are_fetched_but_for_this_one(job: Path) -> None:
    finished = run(
        job, "fetch.sh", "baselines", BRANCH="main", COUNT="3", NAME="traceml",
        GITHUB_REPOSITORY="us/it", GITHUB_RUN_ID="12",
        GITHUB_WORKFLOW_REF="us/it/.github/workflows/speed.yml@refs/pull/1/merge",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert [folder.name for folder in (job / "baselines").iterdir()] == ["10"]
    assert "run 11 has no artifact traceml" in finished.stdout
    asked = (job / "calls.txt").read_text().splitlines()[0]
    assert "--workflow speed.yml --branch main --status success --limit 3" in asked

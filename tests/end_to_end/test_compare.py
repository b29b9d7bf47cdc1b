"""The example of a slow loader, before and after: real runs, compared by what they left."""

import json
from pathlib import Path

import pytest

from tests.launching import Launcher

pytestmark = pytest.mark.alone

DEMO = Path(__file__).parents[2] / "examples" / "diagnosis" / "dataloader_bottleneck_demo.py"
SMALL = ("--batch-size", "64", "--num-samples", "2560", "--hidden-dim", "64", "--depth", "2")


def run_demo(launcher: Launcher, scenario: str) -> None:
    own = ("--run-name", f"compare_{scenario}", "--metrics-port", "0", "--linger", "0")
    given = ("--args", "--scenario", scenario, "--sleep-ms", "1", *SMALL)
    finished = launcher.call("run", str(DEMO), *own, *given)
    assert finished.exit_code == 0, finished.stderr


def test_a_loader_that_was_mended_is_an_improvement_by_its_input(launcher: Launcher) -> None:
    for scenario in ("slow", "fast"):
        run_demo(launcher, scenario)
    files = [f"logs/compare_{scenario}/final_summary.json" for scenario in ("slow", "fast")]
    finished = launcher.call("compare", *files, "--fail-on", "regression,inconclusive")
    assert finished.exit_code == 0, finished.stdout + finished.stderr
    assert finished.stdout.startswith("IMPROVEMENT")
    written = launcher.folder / "compare"
    record = json.loads((written / "compare_slow_vs_compare_fast.json").read_text())
    assert record["causes"][0]["phase"] == "dataloader"
    assert record["diagnosis"]["base"]["state"] == "INPUT_BOUND"
    assert (written / "compare_slow_vs_compare_fast.txt").read_text() == finished.stdout
    back = launcher.call("compare", *reversed(files), "--fail-on", "regression")
    assert back.exit_code == 1
    assert back.stdout.startswith("REGRESSION")

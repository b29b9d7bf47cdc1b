"""The examples run as their pages say, and show what they are for."""

from pathlib import Path

import pytest

from tests.launching import Launcher

DEMO = Path(__file__).parents[2] / "examples" / "diagnosis" / "dataloader_bottleneck_demo.py"


@pytest.mark.parametrize(
    ("scenario", "is_bound"), [("slow", True), ("fast", False)], ids=["slow", "fast"]
)
def test_the_loader_is_to_blame_in_the_slow_scenario_alone(
    launcher: Launcher, scenario: str, is_bound: bool
) -> None:
    finished = launcher.run(
        str(DEMO), "--mode=summary", "--args", "--scenario", scenario, "--sleep-ms", "2",
        "--batch-size", "32", "--num-samples", "960", "--hidden-dim", "64", "--depth", "2",
        "--print-every", "10",
    )  # fmt: skip
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.count("loss") == 3
    summary = finished.summary
    states = [finding["state"] for finding in summary["step_time"]["findings"]]
    assert summary["step_time"]["steps"]["completed"] == 30
    assert (states[0] == "INPUT_BOUND") is is_bound
    assert (summary["step_time"]["phases"]["dataloader"]["median_seconds"] > 0.06) is is_bound

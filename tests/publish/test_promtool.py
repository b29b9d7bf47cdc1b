"""Prometheus' own linter."""

import subprocess

from tests.publish.golden import rendered


def test_promtool_finds_nothing_in_the_metrics(promtool: str) -> None:
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=rendered("golden_metrics.txt"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")

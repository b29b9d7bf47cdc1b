"""The sidecar and the command line where torch is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import Finished, Launcher

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of a new environment with TraceML and without torch."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = str(folder / "bin" / "python")
    pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run(
        [*pip, "--constraint", str(ROOT / "constraints.txt"), str(ROOT)],
        capture_output=True,
        text=True,
    )
    if installed.returncode != 0:
        if os.environ.get("TRACEML_REQUIRE_REAL") == "1":
            pytest.fail(installed.stderr)
        pytest.skip("no packages to be had")
    return interpreter


def test_a_run_works_from_end_to_end_without_torch(python: str, launcher: Launcher) -> None:
    (launcher.folder / "script.py").write_text("print('hello')\nraise SystemExit(4)\n")
    command = [python, "-m", "traceml", "run", "--run-name", "test", "--metrics-port", "0"]
    finished = launcher.finish(launcher.popen([*command, "script.py"]))
    assert (finished.exit_code, finished.stdout) == (4, "hello\n")
    assert "No rank has reported" in finished.stderr
    assert finished.summary["run"]["status"] == "failed"


def test_help_version_and_errors_work_without_torch(python: str, launcher: Launcher) -> None:
    def call(*arguments: str) -> Finished:
        return launcher.finish(launcher.popen([python, "-m", "traceml", *arguments]))

    assert call("--version").stdout.startswith("traceml 0")
    assert "traceml env" in call("sidecar", "--help").stdout
    assert "TRACEML_ENDPOINT=" in call("env", "unix:///tmp/a.sock").stdout
    assert call("run", "nosuch.py").exit_code == 66
    assert subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 1

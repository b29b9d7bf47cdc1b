import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.launching import SCRIPTS, Launcher


@pytest.mark.parametrize("processes", [1, 2])
def test_losses_are_bit_identical_with_and_without_traceml(
    launcher: Launcher, tmp_path: Path, processes: int
) -> None:
    def losses(name: str, *flags: str) -> list[str]:
        file = tmp_path / name
        finished = launcher.run(
            *flags, f"--nproc-per-node={processes}", str(SCRIPTS / "training.py"),
            "--", "--norm", "--losses", str(file),
        )  # fmt: skip
        assert finished.exit_code == 0, finished.stderr
        return [file.with_suffix(f".{rank}").read_text() for rank in range(processes)]

    traced = losses("traced")
    assert traced == losses("bare", "--disable-traceml")
    assert all(len(of_rank.splitlines()) == 40 for of_rank in traced)


@pytest.mark.parametrize("compiled", [False, True])
def test_with_all_that_an_accelerator_gets_nothing_changes(
    launcher: Launcher, tmp_path: Path, compiled: bool
) -> None:
    path = os.pathsep.join([str(SCRIPTS / "pretending"), os.environ.get("PYTHONPATH", "")])

    def run(name: str, *flags: str) -> dict[str, Any]:
        file = tmp_path / name
        arguments = [str(file), *(["--compile"] if compiled else [])]
        finished = launcher.run(
            *flags, str(SCRIPTS / "moving.py"), "--", *arguments, environment={"PYTHONPATH": path}
        )
        assert finished.exit_code == 0, finished.stderr
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    traced, bare = run("traced"), run("bare", "--disable-traceml")
    assert (traced["hooked"], bare["hooked"]) == ("traceml.rank.copies", "builtins")
    assert traced["outcome"] == bare["outcome"]
    assert bare["outcome"]["types"] == {"Boxes": 96}
    assert (bare["outcome"]["graphs"], bare["outcome"]["breaks"]) == (int(compiled), 0)
    assert len(bare["outcome"]["losses"]) == 12

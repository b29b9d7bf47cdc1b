from pathlib import Path

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

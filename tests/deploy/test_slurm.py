"""The batch script, as Slurm runs it; the scheduler alone is a stand-in."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.deploy.test_containers import programs
from tests.deploy.tools import DEPLOY
from tests.launching import SCRIPTS, Launcher, eventually, fetch
from traceml.sidecar.listen import bind

BATCH = DEPLOY / "slurm" / "train.sbatch"

# Two nodes, which are both this machine.
SRUN = """\
#!/bin/bash
[ "$1" = --kill-on-bad-exit=1 ] || exit 64
shift
SLURM_NODEID=0 "$@" & first=$!
SLURM_NODEID=1 "$@" & second=$!
wait $first && wait $second
"""
SCONTROL = """\
#!/bin/sh
[ "$*" = "show hostnames here[0-1]" ] && printf '127.0.0.1\\nelsewhere\\n'
"""


@pytest.fixture
def allocation(tmp_path: Path) -> dict[str, str]:
    """What Slurm puts into the environment of a job, and its programs."""
    path = programs(tmp_path / "bin")
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "targets").mkdir()
    with bind("127.0.0.1", 0) as free:
        job = free.getsockname()[1] % 10_000  # the script makes its port of it
    return {
        "PATH": path,
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_NODELIST": "here[0-1]",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "1",
        "TRACEML_TARGETS": str(tmp_path / "targets"),
        "TRACEML_LINGER": "0",
        "GLOO_SOCKET_IFNAME": "lo",
    }


def announced(folder: Path) -> list[str]:
    """Where the nodes say that they serve metrics; their host's name need not be resolved here."""
    files = sorted(folder.glob("*.json"))
    targets = [json.loads(file.read_text())[0]["targets"][0] for file in files]
    return [f"http://127.0.0.1:{target.rsplit(':', 1)[1]}/metrics" for target in targets]


def test_two_nodes_make_one_run_and_announce_themselves(
    launcher: Launcher, hold: Path, allocation: dict[str, str]
) -> None:
    targets, job = Path(allocation["TRACEML_TARGETS"]), allocation["SLURM_JOB_ID"]
    script = [str(SCRIPTS / "training.py"), "--hold", str(hold), "--steps", "20"]
    batch = launcher.popen(["bash", str(BATCH), *script], allocation)
    eventually(lambda: len(announced(targets)) == 2)
    for node, url in enumerate(announced(targets)):
        labels = f'node="{node}",rank="{node}",run="{job}"}} 1'
        eventually(lambda url=url, labels=labels: labels in fetch(url))  # type: ignore[misc]
    hold.unlink()
    assert batch.wait(timeout=90) == 0, batch.communicate()[1]
    assert announced(targets) == []
    for node in (0, 1):
        folder = launcher.folder / "logs" / job / f"node-{node}"
        summary = json.loads((folder / "final_summary.json").read_text())
        assert summary["run"]["name"] == job
        assert (summary["run"]["world_size"], summary["run"]["nnodes"]) == (2, 2)
        assert [rank["rank"] for rank in summary["ranks"]] == [node]


def test_a_script_has_to_be_named(allocation: dict[str, str]) -> None:
    environment = {**os.environ, **allocation}
    done = subprocess.run(["bash", str(BATCH)], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: sbatch")


def test_a_rank_that_fails_fails_the_job(launcher: Launcher, allocation: dict[str, str]) -> None:
    script = [str(SCRIPTS / "training.py"), "--steps", "20", "--end", "exit3"]
    batch = launcher.popen(["bash", str(BATCH), *script], allocation)
    assert batch.wait(timeout=90) != 0

"""What the Kubernetes sample starts in its two containers, started here as two processes."""

import os
import shlex
import sys
from pathlib import Path

from tests.deploy.test_kubernetes import named, pod
from tests.launching import SCRIPTS, Launcher, eventually

RANKS = 2


def programs(folder: Path) -> str:
    """`traceml` and `torchrun` of this Python, in a folder for the search path."""
    folder.mkdir()
    for name, module in (("traceml", "traceml"), ("torchrun", "torch.distributed.run")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_a_pod_s_training_reports_to_its_sidecar(launcher: Launcher, hold: Path) -> None:
    found = pod("training")

    def here(text: str) -> str:
        """As it stands in the manifest, with this test's folders, ranks and script."""
        text = text.replace("/run/traceml", str(launcher.folder / "ranks"))
        text = text.replace("=/logs", f"={launcher.folder / 'logs'}")
        text = text.replace("--nproc-per-node=8", f"--nproc-per-node={RANKS}")
        return text.replace(" train.py", f" {SCRIPTS / 'training.py'} --hold {hold}")

    (launcher.folder / "ranks").mkdir(mode=0o700)
    sidecar = launcher.popen(
        [*launcher.command(*map(here, found.sidecar["args"])), "--metrics-port=0", "--linger=0"],
        {"TRACEML_RUN_NAME": "test"},
    )
    endpoint = here(named(found.training["env"], "TRACEML_ENDPOINT")["value"])
    script = here(found.training["args"][0])
    assert script.count(str(SCRIPTS)) == 1
    training = launcher.popen(
        [*found.training["command"], script],
        {"TRACEML_ENDPOINT": endpoint, "PATH": programs(launcher.folder / "bin")},
    )
    eventually(lambda: launcher.value('traceml_ranks_reporting{run="test"}') == RANKS)
    eventually(lambda: launcher.completed() > 10)
    hold.unlink()
    assert training.wait(timeout=60) == 0, training.communicate()[1]

    sidecar.terminate()  # as the kubelet does once the training is over
    finished = launcher.finish(sidecar)
    assert finished.exit_code == 0
    assert finished.summary["run"]["status"] == "completed"
    assert shlex.split(script)[0] == "exec"  # so that the training gets the pod's signals

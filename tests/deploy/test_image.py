"""The image, run for real: no root, nothing to write to but its volumes, ranks outside of it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.tools import optional_program
from tests.launching import SCRIPTS, Launcher, eventually
from traceml import __version__
from traceml.rank import inject
from traceml.wire import ENDPOINT_VARIABLE

IMAGE = os.environ.get("TRACEML_TEST_IMAGE", "localhost/traceml-sidecar:test")
OWN_USER = 10001
ANOTHER_USER = 23456  # as OpenShift gives one, or `docker run --user`

# What a container may do where nobody trusts it; and what podman needs here to start one at all.
SHIELDED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL",
            "--security-opt=no-new-privileges")  # fmt: skip
HERE = ("--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
        "--log-driver=none")  # fmt: skip


@pytest.fixture(scope="module")
def podman() -> list[str]:
    """The command; without the image, which build_image.sh makes, there is nothing to test."""
    program = optional_program("podman")
    if os.geteuid() != 0:
        pytest.skip("ranks have to be the container's user, so this needs root")
    if subprocess.run([program, "image", "exists", IMAGE]).returncode != 0:
        pytest.skip(f"there is no image {IMAGE}: tests/deploy/build_image.sh builds it")
    return [program, "--runtime=runc", "--cgroup-manager=cgroupfs"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that another user can be given; pytest's own are root's alone."""
    made = Path(tempfile.mkdtemp(prefix="traceml-image-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def inside(podman: list[str], *python: str) -> "subprocess.CompletedProcess[str]":
    """The image's Python, shielded."""
    command = [*podman, "run", "--rm", *SHIELDED, *HERE, "--entrypoint=python3", IMAGE, "-c"]
    return subprocess.run([*command, *python], capture_output=True, text=True)


def test_it_is_nobody_s_root_and_has_no_torch(podman: list[str]) -> None:
    described = subprocess.run(
        [*podman, "image", "inspect", IMAGE], capture_output=True, text=True, check=True
    )
    assert json.loads(described.stdout)[0]["Config"]["User"] == f"{OWN_USER}:{OWN_USER}"
    assert inside(podman, "import os; print(os.getuid())").stdout == f"{OWN_USER}\n"
    without = inside(podman, "import torch")
    assert "ModuleNotFoundError" in without.stderr


def test_its_root_cannot_be_written_to(podman: list[str]) -> None:
    refused = inside(podman, "open('/tmp/x', 'w')")
    assert "Read-only file system" in refused.stderr


def test_it_brings_what_a_training_image_installs(podman: list[str]) -> None:
    listed = inside(podman, "import os; print(*os.listdir('/wheels'))")
    assert listed.stdout == f"traceml_exporter-{__version__}-py3-none-any.whl\n"


def as_user(user: int) -> list[str]:
    """Another user, who may read what root alone may: this Python can be root's own."""
    readers = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *readers]


@pytest.mark.parametrize("user", [OWN_USER, ANOTHER_USER])
def test_a_rank_outside_reports_through_the_shared_socket(
    podman: list[str], folder: Path, user: int
) -> None:
    for name in ("ranks", "logs"):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, user, user)
    hold = folder / "hold"
    hold.touch()
    with Launcher(folder) as launcher:
        sidecar = launcher.popen(
            [*podman, "run", "--rm", "--name", f"traceml-image-{os.getpid()}-{user}", *SHIELDED,
             *HERE, f"--user={user}:{user}",
             f"--volume={folder / 'ranks'}:/run/traceml", f"--volume={folder / 'logs'}:/logs",
             IMAGE, "sidecar", "--run-name=test", "--listen=unix:///run/traceml/ranks.sock",
             "--metrics-port=0", "--logs-dir=/logs", "--linger=0"]
        )  # fmt: skip
        launcher.sidecar()
        assert (folder / "logs" / "test").stat().st_uid == user
        training = subprocess.Popen(
            [*as_user(user), sys.executable, str(SCRIPTS / "training.py"), "--hold", str(hold)],
            cwd=folder,
            env=inject.environment(
                {**os.environ, "HOME": "/nonexistent",
                 ENDPOINT_VARIABLE: f"unix://{folder}/ranks/ranks.sock"}
            ),
        )  # fmt: skip
        try:
            eventually(lambda: launcher.completed() > 10)
            hold.unlink()
            assert training.wait(timeout=60) == 0
        finally:
            training.kill()
        sidecar.terminate()  # podman hands it on
        finished = launcher.finish(sidecar)
    assert finished.exit_code == 0, finished.stderr
    assert finished.summary["run"]["status"] == "completed"
    assert finished.summary["step_time"]["steps"]["completed"] > 10

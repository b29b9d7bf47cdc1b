"""An environment with the oldest version of each dependency that pyproject.toml allows."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

from traceml.cli.toml import read_toml

ROOT = Path(__file__).parents[1]


def floors(dependencies: list[str]) -> list[str]:
    """The requirements that hold for this Python, each with its lowest version alone."""
    requirements = [Requirement(dependency) for dependency in dependencies]
    return [
        f"{requirement.name}=={_floor(requirement)}"
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate()
    ]


def _floor(requirement: Requirement) -> str:
    versions = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
    assert len(versions) == 1, f"{requirement}: which version is the oldest that works?"
    return versions[0]


def python() -> str:
    """Its interpreter, which knows nothing of TraceML; installed now if nobody has done so before.

    CalledProcessError says why that can't be done.
    """
    pinned = floors(read_toml(ROOT / "pyproject.toml")["project"]["dependencies"])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "traceml-tests" / "floors"
    folder.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(f"{sys.version} {sys.prefix} {pinned}".encode()).hexdigest()[:16]
    kept = folder / version
    if not kept.exists():
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                _install(pinned, kept)
    return str(kept / "bin" / "python")


def _install(pinned: list[str], into: Path) -> None:
    """In place only when whole; packages that have to be compiled count as not to be had."""
    with tempfile.TemporaryDirectory(dir=into.parent) as name:
        made = Path(name) / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(made / "bin" / "python")]
        options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run(
            [*pip, "install", *options, *pinned], check=True, capture_output=True, text=True
        )
        shutil.move(made, into)

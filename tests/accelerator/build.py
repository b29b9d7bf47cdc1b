"""Compiles the fake accelerator, once per user and machine, and says where it lies."""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

NAME = "fake_accelerator"
_SOURCES = Path(__file__).parent / "native"
_FLAGS = ["-O0"]  # it sleeps for a living
_SECONDS = 900.0


def library() -> Path:
    """The compiled library; compiled now if nobody has done so before."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "traceml-tests" / "accelerator"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / _version() / f"{NAME}.so"
    if not kept.exists():
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                _build(kept.parent)
    return kept


def _version() -> str:
    """Changes with the sources, torch and Python."""
    digest = hashlib.sha256(f"{torch.__version__} {sys.version} {_FLAGS}".encode())
    for file in sorted(_SOURCES.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _build(folder: Path) -> None:
    """In a process of its own, which leaves this one as it was; in place only when whole."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        build = Path(name) / "build"
        command = [sys.executable, "-m", "tests.accelerator.build", str(build)]
        root = Path(__file__).parents[2]
        subprocess.run(command, cwd=root, check=True, timeout=_SECONDS, stdout=subprocess.DEVNULL)
        build.rename(folder)


def _compile(folder: Path) -> None:
    from torch.utils.cpp_extension import load  # slow, and only needed here

    folder.mkdir(parents=True)
    sources = [str(file) for file in sorted(_SOURCES.glob("*.cpp"))]
    load(NAME, sources, _FLAGS, build_directory=str(folder))


if __name__ == "__main__":
    _compile(Path(sys.argv[1]))

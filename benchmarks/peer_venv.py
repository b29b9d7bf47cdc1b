"""The peer in an environment of its own, made once below `.bench/`."""

import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.report import progress

VARIABLE = "TRACEML_BENCH_PEER_VENV"  # an environment that exists already
PEER = "traceml-ai==0.5.0"
_TORCH = "torch==2.13.0"


def peer_venv() -> Path:
    """The folder of an environment that has the peer."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    folder = ROOT / ".bench" / "peer-venv"
    if not (folder / "bin" / "traceml").exists():
        _make(folder)
    return folder


def installed(folder: Path, package: str) -> str:
    """The version of a package in that environment."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    answer = subprocess.run(
        [folder / "bin" / "python", "-c", code], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def _make(folder: Path) -> None:
    progress(f"peer: making {folder.relative_to(ROOT)} with {_TORCH} and {PEER}")
    venv.create(folder, with_pip=True, clear=True)
    for package in (_TORCH, PEER):
        subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "--quiet", package],
            check=True,
            stdout=sys.stderr,
        )

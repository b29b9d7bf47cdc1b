"""The programs that judge what is deployed, and the files they judge."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import require_program

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GRAFANA = ROOT / "grafana"

_SHELLS = (b"#!/bin/sh\n", b"#!/bin/bash\n", b"#!/usr/bin/env bash\n")
_BESIDE_PYTHON = Path(sys.executable).parent


def linter(name: str) -> str:
    """One that the project is developed with: it lies beside its Python."""
    return shutil.which(name, path=_BESIDE_PYTHON) or require_program(name)


def optional_program(name: str) -> str:
    """One that no package of ours brings; where it is missing the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def passes(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program says that finds nothing wrong."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documents(text: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def read_yaml(file: Path) -> Any:
    (document,) = documents(file.read_text())
    return document


def shell_scripts() -> list[Path]:
    """Whatever says in its first line that a shell runs it."""
    folders = (DEPLOY, ROOT / ".ci", ROOT / "tests" / "deploy")
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return sorted(file for file in files if file.read_bytes().startswith(_SHELLS))

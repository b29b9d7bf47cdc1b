"""What judges our files in JavaScript; `.ci/packages` has npm put it here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"


def require_modules() -> None:
    """Skip where they are not installed, unless real parts are required and npm could do it."""
    if MODULES.is_dir():
        return
    if os.environ.get("TRACEML_REQUIRE_REAL") == "1" and shutil.which("npm"):
        pytest.fail("what tests need of JavaScript is required and not installed")
    pytest.skip(f"not installed: npm install in {HERE.relative_to(HERE.parents[1])}")


def said(script: str, text: str) -> str:
    """What one of the scripts beside this file says of a text."""
    require_modules()
    done = subprocess.run(
        ["node", HERE / script], input=text, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(folder: Path, sources: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """What TypeScript's own compiler says of these files, and others that lie in the folder."""
    require_modules()
    for name, source in sources.items():
        (folder / name).write_text(source)
    shutil.copy(HERE / "tsconfig.json", folder)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES)
    return subprocess.run(
        [MODULES / ".bin" / "tsc", "--project", folder],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

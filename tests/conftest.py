import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launching import Launcher


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Runs `traceml` in a folder of its own and leaves no process behind."""
    with Launcher(tmp_path) as launcher:
        yield launcher


@pytest.fixture
def promtool() -> str:
    return require_program("promtool")


@pytest.fixture
def prometheus() -> str:
    return require_program("prometheus")


def require_program(name: str) -> str:
    """A real part; where it is missing the test is skipped, or fails if parts are required."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("TRACEML_REQUIRE_REAL") == "1":
            pytest.fail(f"{name} is required and not installed")
        pytest.skip(f"{name} is not installed")
    return found

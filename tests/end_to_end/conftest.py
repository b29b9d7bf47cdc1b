from pathlib import Path

import pytest


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """A file for as long as which the training goes on."""
    file = tmp_path / "hold"
    file.touch()
    return file

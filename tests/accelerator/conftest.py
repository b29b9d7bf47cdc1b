import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import require_program


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled backend; kept, because compiling takes most of a minute."""
    require_program(os.environ.get("CXX", "c++"))
    require_program("ninja")
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    kept = cache.mkdir("accelerator") if cache else tmp_path_factory.mktemp("accelerator")
    folder = kept / f"torch-{torch.__version__}-python-{sys.version_info[0]}.{sys.version_info[1]}"
    command = [sys.executable, "-m", "tests.accelerator.backend", str(folder)]
    subprocess.run(command, check=True, timeout=170, stdout=subprocess.DEVNULL)
    return folder

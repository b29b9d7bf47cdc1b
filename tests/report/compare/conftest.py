from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.compare.made import Workload, made_summary
from traceml.report.compare.ours import read_ours
from traceml.report.compare.side import Side
from traceml.report.reading import parsed

MakeSide = Callable[..., Side]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def make_side(rng: np.random.Generator) -> MakeSide:
    """A run of a workload, read from the summary that it would have left."""

    def make(workload: Workload | None = None, name: str = "run", **run: Any) -> Side:
        return read_ours(parsed(made_summary(rng, workload, name, **run), Path(name)))

    return make

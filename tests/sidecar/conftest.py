import pytest

from tests.builders import Clock, make_collector
from traceml.sidecar.collector import Collector


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Collector:
    return make_collector(clock)

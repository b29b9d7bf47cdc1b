import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from tests.builders import Clock, make_collector
from tests.nvml import stub
from tests.nvml.stub import Machine
from traceml.sidecar.collector import Collector
from traceml.sidecar.gpu import GpuSampler


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock) -> Collector:
    return make_collector(clock)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds a kind of driver once, however many tests ask for it."""
    built: dict[tuple[str, ...], Path] = {}

    def library(*defines: str) -> Path:
        if defines not in built:
            built[defines] = stub.build(tmp_path_factory.mktemp("nvml"), *defines)
        return built[defines]

    return library


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path / "machine")
    monkeypatch.setenv("NVML_STUB", str(machine.file))
    return machine


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Has the binding find this library where it would look for NVML's."""

    loaded: dict[Path, ctypes.CDLL] = {}

    def open_library(library: Path) -> ctypes.CDLL:
        return loaded.setdefault(library, ctypes.CDLL(str(library)))

    def found_at(library: Path) -> None:
        monkeypatch.setattr(pynvml, "CDLL", lambda name: open_library(library))

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield found_at
    for library in loaded.values():  # the binding may have let go of it
        library.stub_free_all()
        while library.nvmlShutdown() == pynvml.NVML_SUCCESS:
            pass


@pytest.fixture
def driver(
    machine: Machine, load: Callable[[Path], None], build: Callable[..., Path]
) -> Callable[..., None]:
    def driver(*defines: str) -> None:
        load(build(*defines))

    driver()
    return driver


@pytest.fixture
def sampler(driver: Callable[..., None], clock: Clock) -> GpuSampler:
    return GpuSampler({}, clock)

"""Where the figures were taken: the machine and the versions."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from benchmarks.report import Table, mebibytes

_PACKAGES = ("traceml-exporter", "torch", "grpcio", "protobuf", "numpy", "uvicorn")


def describe() -> Table:
    """The machine, its load before the run, and what is installed."""
    facts = {
        "CPU": f"{os.cpu_count()} x {_cpu_model()}",
        "memory": mebibytes(psutil.virtual_memory().total),
        "system": f"{platform.system()} {platform.release()}",
        "load average before (1, 5, 15 min)": load(),
        "Python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
    }
    how = "Read once, before the first benchmark."
    return Table("Machine and versions", how, ("what", "value"), list(facts.items()))


def load() -> str:
    """How busy the machine has been of late."""
    return ", ".join(f"{average:.2f}" for average in os.getloadavg())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()

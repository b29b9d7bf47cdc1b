"""Builds the accelerator that is none, and makes torch know it in this process, for good."""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).parent / "fake.cpp"
NAME = "fake"
_MODULE = f"{NAME}_accelerator"


def build(folder: Path) -> None:
    """Compile it into this folder, if what is there is not of the same source."""
    from torch.utils.cpp_extension import load  # slow, and only needed here

    folder.mkdir(parents=True, exist_ok=True)
    flags = ["-O0"]  # it sleeps for a living
    load(_MODULE, [str(SOURCE)], flags, build_directory=str(folder))


def register(folder: Path) -> Any:
    """Make it a device of torch; returns what queues work on it."""
    loader = ExtensionFileLoader(_MODULE, str(folder / f"{_MODULE}.so"))
    spec = spec_from_loader(_MODULE, loader)
    assert spec is not None
    backend = module_from_spec(spec)
    loader.exec_module(backend)
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, backend)
    return backend


if __name__ == "__main__":
    build(Path(sys.argv[1]))

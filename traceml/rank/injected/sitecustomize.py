"""Imported by Python before the script of a traced run; see `traceml.rank.inject`."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _inject() -> None:
    try:
        from traceml.rank.imports import when_imported

        when_imported("torch", lambda _: _start())
    except Exception:  # without tracing, then; the script runs
        return


def _start() -> None:
    try:
        import traceml.rank.step  # noqa: F401 - starts the tracer of this process
    except Exception as error:
        from traceml.rank.notice import not_tracing

        not_tracing(error)


def _hand_over() -> None:
    """Run the `sitecustomize` that stands behind ours, as if ours were not there."""
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("there is none", name="sitecustomize")  # as Python expects
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("TRACEML_ENDPOINT"):
    _inject()
_hand_over()

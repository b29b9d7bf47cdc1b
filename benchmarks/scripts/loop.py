"""A whole process with one loop: bare, with TraceML, or with the peer's tracing."""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.scripts.workload import Step, Workload, workload

Scope = Callable[[Any], AbstractContextManager[Any]]


def main() -> None:
    arguments = _arguments()
    scope = _SCOPES[arguments.tool]()
    training = workload(arguments.parameters, arguments.steps)
    step = _bare(training) if scope is None else _scoped(training, scope)
    training.time(step, 1)
    first_step_at = time.monotonic()
    times = training.time(step, arguments.steps - 1)
    result = {
        "pid": os.getpid(),
        "first_step_at": first_step_at,
        "last_step_at": time.monotonic(),
        **times,
    }
    arguments.out.write_text(json.dumps(result), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", choices=list(_SCOPES), required=True)
    parser.add_argument("--parameters", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def _bare(training: Workload) -> Step:
    def step(batch: Any) -> None:
        training.step(batch)

    return step


def _scoped(training: Workload, scope: Scope) -> Step:
    def step(batch: Any) -> None:
        with scope(training.model):
            training.step(batch)

    return step


def _no_scope() -> None:
    return None


def _our_scope() -> Scope:
    from traceml import trace_step

    return trace_step


def _peer_scope() -> Scope:
    import traceml_ai

    traceml_ai.init(mode="auto")
    scope: Scope = traceml_ai.trace_step
    return scope


_SCOPES: dict[str, Callable[[], Scope | None]] = {
    "bare": _no_scope,
    "ours": _our_scope,
    "peer": _peer_scope,
}


if __name__ == "__main__":
    main()

"""The scope that a user writes."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import traceml
from tests.rank.conftest import recorded
from traceml.decorators import trace_step
from traceml.rank.tracer import Tracer
from traceml.wire.columns import VALUES


def steps(tracer: Tracer) -> int:
    return len(recorded(tracer.recorder))


def test_both_import_paths_are_the_same() -> None:
    assert traceml.trace_step is trace_step


def test_a_scope_is_a_step(tracer: Tracer) -> None:
    for _ in range(3):
        with trace_step():
            pass
    assert steps(tracer) == 3


def test_a_scope_within_a_scope_is_the_same_step(tracer: Tracer) -> None:
    with trace_step(), trace_step():
        pass
    assert steps(tracer) == 1


def test_an_exception_passes_through_and_its_step_is_not_counted(tracer: Tracer) -> None:
    with pytest.raises(KeyError), trace_step():
        raise KeyError
    with trace_step():
        pass
    assert steps(tracer) == 1


def test_without_a_model_there_is_no_forward_to_time(tracer: Tracer) -> None:
    with trace_step():
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    (values,) = recorded(tracer.recorder).values
    assert math.isnan(values[VALUES.index("forward_ns")])


def test_training_on_another_thread_than_the_main_one_is_traced(tracer: Tracer) -> None:
    def train() -> None:
        for _ in range(4):
            with trace_step():
                pass

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert steps(tracer) == 4


def test_a_fault_of_ours_is_counted_and_stays_with_us(
    tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(tracer, "_adopt", explode)
    for _ in range(2):
        with trace_step(torch.nn.Linear(1, 1)):
            pass
    assert (tracer.recorder.faults, steps(tracer)) == (1, 0)


def test_a_scope_around_something_that_is_no_model_does_not_raise(tracer: Tracer) -> None:
    with trace_step(torch.nn.Linear(1, 1)):
        pass
    tracer._settled = True  # as once dynamo is there
    for _ in range(2):
        with trace_step("no model"):
            pass
    assert tracer.recorder.faults == 1


def test_where_tracing_cannot_start_the_training_runs_and_one_line_says_why(
    tmp_path: Path,
) -> None:
    (tmp_path / "google.py").touch()  # hides protobuf
    (tmp_path / "train.py").write_text("from traceml import trace_step\nwith trace_step(): pass\n")
    finished = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TRACEML_ENDPOINT": "unix:///nobody.sock"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0
    assert finished.stderr.startswith("traceml: not tracing this process: ModuleNotFoundError")
    assert len(finished.stderr.splitlines()) == 1


def test_without_an_endpoint_nothing_of_torch_is_touched() -> None:
    script = (
        "import torch; before = torch.autograd.backward; import traceml\n"
        "with traceml.trace_step(torch.nn.Linear(1, 1)): pass\n"
        "assert torch.autograd.backward is before\n"
        "import sys; assert not {'grpc', 'google'} & set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")

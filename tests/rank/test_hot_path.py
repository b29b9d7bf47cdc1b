"""What a step costs the training thread is arithmetic: no lock, no socket, no file."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import traceml
from tests.rank.conftest import LocalTracer, recorded
from traceml import trace_step
from traceml.rank import sender as senders
from traceml.rank import step
from traceml.rank.events import DISTRIBUTED
from traceml.rank.slots import to_records
from traceml.rank.tracer import Tracer
from traceml.sidecar.config import Config, Ending, RunIdentity
from traceml.sidecar.launch import SidecarProcess, socket_endpoint
from traceml.sidecar.listen import bind
from traceml.wire.columns import VALUES, Records

PACKAGE = str(Path(traceml.__file__).parent)

# Everything in C that our own code may call on the training thread in a step.
ALLOWED = {
    "perf_counter_ns", "get_ident", "is_grad_enabled", "append", "numel", "queue_callback",
    "id", "get",
}  # fmt: skip


Loop = Callable[[int, torch.nn.Module], None]


def loop(steps: int, model: torch.nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (inputs,) in DataLoader(TensorDataset(torch.randn(steps, 4))):
        with trace_step(model):
            step_of(model, optimizer, inputs)


def unaware_loop(steps: int, model: torch.nn.Module) -> None:
    """As a script does that knows nothing of TraceML."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (inputs,) in DataLoader(TensorDataset(torch.randn(steps, 4))):
        step_of(model, optimizer, inputs)


def step_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor) -> None:
    loss = model(inputs).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Calls:
    """Which C functions our own frames call, and which of our functions run."""

    def __init__(self) -> None:
        self.builtins: set[str] = set()
        self.functions: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return
        if event == "call":
            self.functions.add(frame.f_code)
        elif event == "c_call" and not is_original(argument):
            self.builtins.add(argument.__name__)


def is_original(function: Any) -> bool:
    """What a hook stands in for is not ours: the work the user asked for."""
    return getattr(function, "__name__", "") in ("wait", "_broadcast_coalesced", "to", "cuda")


@pytest.mark.parametrize("loop", [loop, unaware_loop])
def test_a_step_calls_nothing_but_clocks_and_arithmetic(tracer: LocalTracer, loop: Loop) -> None:
    model = torch.nn.Linear(4, 4)
    tracer.recorder.note(DISTRIBUTED)
    loop(5, model)  # what happens once has happened
    tracer._ready.attach([model])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(1, 4),)] * 20
    calls = Calls()

    def steps() -> None:
        for (inputs,) in batches:
            if loop is unaware_loop:
                step_of(model, optimizer, inputs)
                continue
            with trace_step(model):
                step_of(model, optimizer, inputs)

    steps()  # a new optimizer is looked at once
    fetched = iter(DataLoader(TensorDataset(torch.randn(20, 4))))
    sys.setprofile(calls)
    try:
        next(fetched)
        steps()
    finally:
        sys.setprofile(None)
    assert calls.builtins <= ALLOWED
    names = {code.co_name for code in calls.functions}
    assert {"__next__", "forward", "backward", "before", "after", "_mark"} <= names
    assert ("finish" in names) == (loop is not unaware_loop)


@pytest.mark.parametrize("loop", [loop, unaware_loop])
def test_a_step_opens_no_file_and_no_socket(tracer: LocalTracer, loop: Loop) -> None:
    model = torch.nn.Linear(4, 4)
    loop(3, model)
    seen: list[str] = []
    me, watching = threading.get_ident(), True

    def audit(event: str, _: Any) -> None:
        if watching and threading.get_ident() == me and event.startswith(("open", "socket", "os.")):
            seen.append(event)

    sys.addaudithook(audit)  # for the life of the process, hence the switch
    loop(20, model)
    watching = False
    assert seen == []


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A real sidecar: its endpoint and its pid."""
    endpoint = socket_endpoint()
    run = RunIdentity("test", "0", (), 0.0, 1)
    with bind("127.0.0.1", 0) as listener:
        process = SidecarProcess(Config(run, tmp_path, endpoint, 1.0, None), listener)
    pid = process._process.pid
    yield endpoint, pid
    os.kill(pid, signal.SIGCONT)
    assert process.finish(Ending("completed", 0))
    process.leave(wait=True)


@pytest.mark.alone
def test_own_overhead_is_the_same_whether_the_sidecar_answers_or_is_stopped(
    sidecar: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, pid = sidecar
    overhead: list[np.ndarray[Any, Any]] = []
    monkeypatch.setattr(senders, "to_records", listening(overhead))
    tracer = Tracer(endpoint)
    monkeypatch.setattr(step, "_tracer", tracer)
    model = torch.nn.Linear(4, 4)

    def median() -> float:
        loop(3_000, model)
        deadline = threading.Event()
        while not overhead or sum(map(len, overhead)) < 2_000:
            deadline.wait(0.05)
        values = np.concatenate(overhead)
        overhead.clear()
        return float(np.median(values))

    try:
        median()
        alive = median()
        os.kill(pid, signal.SIGSTOP)
        stopped = median()
    finally:
        tracer.close()
    assert stopped < 2 * alive


def listening(overhead: list[np.ndarray[Any, Any]]) -> Callable[..., Records]:
    def convert(*arguments: Any) -> Records:
        records = to_records(*arguments)
        overhead.append(records.values[:, VALUES.index("overhead_ns")])
        return records

    return convert


@pytest.mark.parametrize("loop", [loop, unaware_loop])
def test_a_forked_child_is_inert_and_its_parent_is_not(tracer: LocalTracer, loop: Loop) -> None:
    model = torch.nn.Linear(4, 4)
    loop(2, model)
    recorded(tracer, ended=True)
    child = os.fork()
    if child == 0:
        loop(5, model)
        os._exit(len(tracer.recorder.take()[0]))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    loop(3, model)
    assert len(recorded(tracer, ended=True)) == 3


def test_the_child_of_a_process_that_has_not_trained_yet_may_train(tracer: LocalTracer) -> None:
    child = os.fork()
    if child == 0:
        unaware_loop(5, torch.nn.Linear(4, 4))
        os._exit(len(recorded(tracer, ended=True)))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 5

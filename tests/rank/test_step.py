"""What a user may say: where a step is, and what sets it apart; and that nothing need be said."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import traceml
from tests.rank.conftest import LocalTracer, recorded
from traceml.decorators import trace_step
from traceml.wire.tags import Tag


def steps(tracer: LocalTracer) -> int:
    return len(recorded(tracer))


def model_and_optimizer() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train_unaware(steps: int) -> None:
    """As a script does that knows nothing of TraceML."""
    model, optimizer = model_and_optimizer()
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def test_both_import_paths_are_the_same() -> None:
    assert traceml.trace_step is trace_step


def test_a_scope_is_a_step(tracer: LocalTracer) -> None:
    for _ in range(3):
        with trace_step():
            pass
    assert steps(tracer) == 3


def test_a_scope_within_a_scope_is_the_same_step(tracer: LocalTracer) -> None:
    with trace_step(), trace_step():
        pass
    assert steps(tracer) == 1


def test_an_exception_passes_through_and_its_step_is_not_counted(tracer: LocalTracer) -> None:
    with pytest.raises(KeyError), trace_step():
        raise KeyError
    with trace_step():
        pass
    assert steps(tracer) == 1


def test_a_loop_without_scopes_has_a_step_for_each_optimizer_step(tracer: LocalTracer) -> None:
    train_unaware(7)
    assert len(recorded(tracer, ended=True)) == 7


def test_a_loop_of_scopes_has_a_step_for_each_scope_and_no_more(tracer: LocalTracer) -> None:
    model, optimizer = model_and_optimizer()
    for _ in range(5):
        with trace_step(model):
            for _ in range(2):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
    assert len(recorded(tracer, ended=True)) == 5


def test_scopes_after_steps_that_were_found_go_on_counting(tracer: LocalTracer) -> None:
    train_unaware(3)
    for _ in range(2):
        with trace_step():
            train_unaware(1)
    records = recorded(tracer, ended=True)
    assert records.step.tolist() == [0, 1, 2, 3, 4]


def test_an_evaluation_alone_calls_nobody(tracer: LocalTracer) -> None:
    with torch.no_grad():
        torch.nn.Linear(2, 2)(torch.ones(1, 2))
    assert tracer._sender is None
    train_unaware(1)
    assert tracer._sender is not None


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("eval", Tag.EVAL),
        ("checkpoint", Tag.CHECKPOINT),
        ("compile", Tag.COMPILE),
        ("warmup", Tag.WARMUP),
        ("user", Tag.USER),
        ("the weather", Tag.USER),
        (None, Tag.USER),
    ],
)
def test_a_tag_is_the_step_s_that_is_under_way(tracer: LocalTracer, name: str, tag: Tag) -> None:
    for number in range(4):
        with trace_step():
            if number == 2:
                traceml.step_tag(name)
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, 0, tag, 0]


def test_a_tag_between_two_scopes_is_the_second_s(tracer: LocalTracer) -> None:
    for number in range(4):
        if number == 2:
            traceml.step_tag("eval")
        with trace_step():
            pass
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, 0, Tag.EVAL, 0]


def test_a_tag_in_a_loop_without_scopes_is_the_step_s_that_is_under_way(
    tracer: LocalTracer,
) -> None:
    model, optimizer = model_and_optimizer()
    for number in range(5):
        loss = model(torch.ones(1, 2)).sum()
        if number == 3:
            traceml.step_tag("eval")
            traceml.step_tag("checkpoint")
        loss.backward()
        optimizer.step()
    tags = recorded(tracer, ended=True).tags.tolist()
    assert tags == [Tag.WARMUP, 0, 0, Tag.EVAL | Tag.CHECKPOINT, 0]


def test_a_tag_from_another_thread_than_the_training_s_is_nobody_s(tracer: LocalTracer) -> None:
    with trace_step():
        pass
    with trace_step():
        thread = threading.Thread(target=traceml.step_tag, args=("eval",))
        thread.start()
        thread.join()
    assert recorded(tracer).tags.tolist() == [Tag.WARMUP, 0]


def test_training_on_another_thread_than_the_main_one_is_traced(tracer: LocalTracer) -> None:
    def train() -> None:
        for _ in range(4):
            with trace_step():
                pass

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert steps(tracer) == 4


def test_training_on_another_thread_without_scopes_is_traced(tracer: LocalTracer) -> None:
    thread = threading.Thread(target=train_unaware, args=(4,))
    thread.start()
    thread.join()
    assert len(recorded(tracer, ended=True)) == 4


def test_a_fault_of_ours_is_counted_and_stays_with_us(
    tracer: LocalTracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(tracer._roots, "choose", explode)
    for _ in range(2):
        with trace_step(torch.nn.Linear(1, 1)):
            pass
    assert (tracer.recorder.faults, steps(tracer)) == (1, 0)


def test_a_scope_around_something_that_is_no_model_does_not_raise(tracer: LocalTracer) -> None:
    with trace_step(torch.nn.Linear(1, 1)):
        pass
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
        "traceml.step_tag('eval')\n"
        "assert (traceml.summary(), traceml.final_summary()) == ({}, None)\n"
        "assert torch.autograd.backward is before\n"
        "import sys; assert not {'grpc', 'h2', 'google'} & set(sys.modules)\n"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_before_the_first_step_there_is_nothing_to_be_told(tracer: LocalTracer) -> None:
    assert (traceml.summary(), traceml.final_summary()) == ({}, None)


def test_an_answer_that_is_none_is_not_the_training_s_error(
    tracer: LocalTracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer, "ask", lambda flat: b"{")
    assert (traceml.summary(), traceml.final_summary()) == ({}, None)
    assert tracer.recorder.faults == 2

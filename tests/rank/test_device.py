"""The training thread's part of the device's clock, on a stream whose time is told by hand."""

import math
import threading
from types import BuiltinMethodType

import pytest
import torch
import torch._dynamo.testing

from tests.rank.conftest import LocalTracer
from tests.rank.stream import Stream, Training
from tests.rank.tape import Step
from traceml import trace_step
from traceml.rank import events
from traceml.rank.device import Backend, backend_of, trained_on
from traceml.rank.device_clock import (
    PENDING_SEGMENTS,
    SEGMENT_MARKS,
    STOPPED,
    DeviceClock,
    keep_time,
)
from traceml.rank.events import Recorder

STEP = {"forward": 10, "backward": 20, "optimizer": 5}  # ms, as Training.step makes it


def is_timed(step: Step) -> bool:
    return not math.isnan(step["device_step"])


def timed(steps: list[Step]) -> list[int]:
    return [step.number for step in steps if is_timed(step)]


def test_a_phase_lasts_on_the_device_as_long_as_what_was_queued_in_it() -> None:
    training = Training()
    for fetch in (0, 3, 0):
        training.step(fetch=fetch)
        training.stream.catch_up()
    training.step()
    first, second, third = training.steps()
    assert not is_timed(first)  # nobody knows where it began
    assert second.device_ms == {"dataloader": 3, **STEP}
    assert third.device_ms == STEP
    assert third["device_dataloader"] == 0


def test_what_is_queued_between_marks_is_in_no_gap_of_the_clock() -> None:
    training = Training()
    ends = []
    for _ in range(10):
        training.step()
        training.stream.work(7)  # between the end of a step and the next fetch
        ends.append(training.stream.end_ms)
        training.stream.catch_up()
    training.clock.settle()
    steps = training.steps(ended=True)
    assert timed(steps) == list(range(1, 10))
    assert all(step["device_step"] == 42e6 for step in steps[1:])
    assert all(step.device_ms == {**STEP, "other": 7} for step in steps[1:])


def test_steps_are_held_until_the_device_has_passed_them_and_nobody_waits_for_it() -> None:
    training = Training()
    for _ in range(5):
        training.step()
    assert training.steps() == []
    training.stream.catch_up()
    training.step()
    steps = training.steps()
    assert [step.number for step in steps] == [0, 1, 2, 3]
    assert timed(steps) == [1, 2, 3]


def test_a_mark_reads_a_few_segments_at_most() -> None:
    training = Training()
    training.stream.queried = 0
    for _ in range(40):
        training.step()
    assert training.stream.queried <= 2 * 40  # both its ends look at the oldest
    training.stream.catch_up()
    before = training.stream.queried
    training.recorder.finish()
    assert training.stream.queried - before <= 4


def test_a_step_ends_so_long_after_its_last_exchange() -> None:
    training = Training()
    for wait in (0, 8, 0):
        training.step(wait=wait)
    training.stream.catch_up()
    training.clock.settle()
    _, exchanged, alone = training.steps(ended=True)
    assert exchanged.device_ms == {**STEP, "collective_wait": 8}
    assert exchanged["device_end"] == 5e6
    assert exchanged["device_backward_end"] == 13e6
    assert alone["device_end"] == 5e6  # since its backward
    assert alone["device_forward_end"] == 25e6


def test_streams_that_overtake_each_other_leave_their_step_untimed() -> None:
    training = Training()
    for number in range(6):
        training.step()
        if number == 2:
            late = training.clock._pending[0][3]
            late.late_ms = 1e9  # type: ignore[union-attr]
        training.stream.catch_up()
    training.clock.settle()
    assert timed(training.steps(ended=True)) == [1, 3, 4, 5]
    assert training.recorder.faults == 0


def test_a_device_that_never_passes_anything_costs_a_bounded_number_of_events() -> None:
    training = Training()
    for _ in range(2_000):
        training.step()
        training.steps()
    assert training.stream.made <= (PENDING_SEGMENTS + 1) * SEGMENT_MARKS
    assert len(training.clock._pending) <= PENDING_SEGMENTS
    held = training.clocks._held
    assert len(held) <= PENDING_SEGMENTS + 1
    steps = training.steps(ended=True)
    assert steps[-1].number == 1_999
    assert timed(steps) == []


def test_over_thousands_of_steps_the_same_few_events_are_used() -> None:
    training = Training()
    seen = 0
    for number in range(3_000):
        training.step()
        if number % 3 == 2:  # it lags by some steps
            training.stream.catch_up()
        seen += len(timed(training.steps()))
    assert seen >= 2_990
    assert training.stream.made < 100


@pytest.mark.parametrize("method", ["record", "query", "elapsed_time"])
def test_an_event_that_raises_ends_the_clock_and_not_the_training(method: str) -> None:
    training = Training()
    recorder = training.recorder
    for number in range(8):
        if number == 4:
            training.stream.broken.add(method)
        training.step()
        training.stream.catch_up()
    steps = training.steps()
    assert [step.number for step in steps] == list(range(8))  # and nothing is held back
    assert set(timed(steps)) <= {1, 2, 3, 4}
    assert {1, 2} <= set(timed(steps))
    assert recorder.faults == 1
    assert STOPPED in recorder.notes
    assert recorder.device is None
    recorded = training.stream.recorded
    training.step()
    assert training.stream.recorded == recorded
    assert len(training.steps()) == 1


def test_a_backend_without_events_leaves_the_training_to_the_cpus_clock() -> None:
    recorder = Recorder(divertible=True)
    keep_time(recorder, torch.device("xpu"))  # which this torch may not have been built for
    assert recorder.device is None
    assert recorder.faults == 1
    recorder.mark(events.FETCH)
    assert len(recorder.take()[0]) == 1


def test_during_a_capture_nothing_is_recorded_and_nothing_queried() -> None:
    training = Training()
    for number in range(8):
        training.stream.capturing = number == 3  # then events that are touched raise
        training.step()
        training.stream.catch_up()
    training.clock.settle()
    steps = training.steps(ended=True)
    assert training.recorder.faults == 0
    assert timed(steps) == [1, 2, 5, 6, 7]  # where the one after began, nobody knows


def test_a_capture_at_the_very_end_is_not_disturbed() -> None:
    training = Training()
    training.step()
    training.stream.capturing = True
    training.clock.settle()
    assert training.recorder.faults == 0


def test_a_step_of_many_marks_is_timed_all_the_same() -> None:
    training = Training()
    for _ in range(3):
        for _ in range(50):  # gradients are accumulated
            training.during(events.FORWARD_TRAIN, events.FORWARD_END, 1)
            training.during(events.BACKWARD, events.BACKWARD_END, 2)
        training.step()
        training.stream.catch_up()
    training.clock.settle()
    last = training.steps(ended=True)[-1]
    assert last.device_ms == {"forward": 60, "backward": 120, "optimizer": 5}


def test_entries_of_other_threads_have_no_events() -> None:
    training = Training()
    recorded = training.stream.recorded

    def elsewhere() -> None:
        training.recorder.append((events.WAIT, 1, threading.get_ident()))
        exposed.append(training.clock.is_exposed())

    exposed: list[bool] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert exposed == [False]
    assert training.clock.is_exposed()
    assert training.stream.recorded == recorded


def test_a_copy_begins_on_the_device_before_it_is_known_to_be_one() -> None:
    training = Training()
    for _ in range(2):
        before = training.clock.stamp()
        training.stream.work(4)
        training.clock.append((events.COPY, 1, threading.get_ident()), before)
        training.recorder.mark(events.COPY_END)
        training.step()
    unused = training.clock.stamp()
    assert unused is not None
    training.clock.release(unused)
    training.stream.catch_up()
    training.clock.settle()
    assert training.steps(ended=True)[-1].device_ms == {"h2d": 4, **STEP}


def test_a_copy_under_way_when_the_clock_fails_is_still_written_down() -> None:
    training = Training()
    before = training.clock.stamp()
    training.stream.broken.add("record")
    training.recorder.mark(events.FETCH)
    training.recorder.take()
    training.clock.append((events.COPY, 1, threading.get_ident()), before)
    assert [code for code, _, _ in training.recorder.take()[0]] == [events.COPY]
    assert training.recorder.faults == 1


def test_on_a_torch_without_accelerators_nothing_stands_before_the_queue() -> None:
    recorder = Recorder()
    assert isinstance(recorder.append, BuiltinMethodType)
    assert recorder.append == recorder._entries.append
    keep_time(recorder, torch.device("cuda"))
    assert recorder.append == recorder._entries.append


def test_a_training_on_the_cpu_has_no_device_clock_though_it_might() -> None:
    recorder = Recorder(divertible=True)
    keep_time(recorder, trained_on([torch.nn.Linear(2, 2)]))
    assert recorder.device is None
    assert recorder.append.func == recorder.keep  # type: ignore[attr-defined]
    assert backend_of(torch.device("mps")) is None


def test_the_device_is_the_one_that_holds_most_of_what_is_trained() -> None:
    small, big = torch.nn.Linear(2, 2), torch.nn.Linear(8, 8, device="meta")
    assert trained_on([small, big]).type == "meta"
    big.requires_grad_(False)
    assert trained_on([small, big]).type == "cpu"
    assert trained_on([]).type == "cpu"


@pytest.fixture
def accelerated(dynamo: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this torch could use an accelerator; stands before `tracer`."""
    monkeypatch.setattr("traceml.rank.device.may_be_used", lambda: True)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # dynamo's own
def test_a_backward_in_compiled_code_is_not_broken_further(
    accelerated: None, tracer: LocalTracer
) -> None:
    def graphs(model: torch.nn.Module) -> tuple[int, int]:
        torch._dynamo.utils.counters.clear()
        counter = torch._dynamo.testing.CompileCounter()

        @torch.compile(backend=counter)
        def train(x: torch.Tensor) -> None:
            model(x).sum().backward()

        for _ in range(4):
            with trace_step(model):
                train(torch.ones(2, 4))
        return counter.frame_count, sum(torch._dynamo.utils.counters["graph_break"].values())

    stream = Stream()
    clock = DeviceClock(tracer.recorder, Backend(stream.make, lambda: stream, lambda: False))
    clock.start()
    with trace_step(model := torch.nn.Linear(4, 4)):
        pass
    before = stream.recorded
    traced = graphs(model)
    assert stream.recorded >= before + 4 * 3  # backward, its end, and the scope's
    assert tracer.recorder.faults == 0
    tracer.close()
    torch._dynamo.reset()
    assert traced == graphs(torch.nn.Linear(4, 4))

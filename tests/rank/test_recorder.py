"""At any instant a step is in exactly one phase."""

import math
import threading
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rank.conftest import recorded
from traceml.rank.recorder import Recorder
from traceml.rank.ring import Ring
from traceml.rank.slots import (
    COLLECTIVE_WAIT,
    DATALOADER,
    FORWARD,
    H2D,
    OPTIMIZER,
    OTHER,
)
from traceml.wire.columns import PHASES, VALUES, Tag

PAUSE = 0.01
PAUSE_NS = PAUSE * 1e9


@pytest.fixture
def recorder() -> Recorder:
    recorder = Recorder(Ring())
    recorder.finish()  # the warm-up step
    recorder.ring.take()
    return recorder


def only_step(recorder: Recorder) -> dict[str, float]:
    (row,) = recorded(recorder).values.tolist()
    return dict(zip(VALUES, row, strict=True))


def phases_of(step: dict[str, float]) -> list[float]:
    return [value for phase in PHASES if not math.isnan(value := step[f"{phase}_ns"])]


@given(st.lists(st.tuples(st.integers(DATALOADER, OTHER), st.booleans()), max_size=20))
def test_phases_add_up_to_the_step_however_they_nest(changes: list[tuple[int, bool]]) -> None:
    recorder = Recorder(Ring())
    recorder.finish()
    recorder.ring.take()
    recorder.measures(*range(DATALOADER, OTHER + 1))
    entered: list[int] = []
    for phase, leave_first in changes:
        if entered and leave_first:
            recorder.leave(entered.pop())
        entered.append(recorder.enter(phase))
    recorder.finish()
    step = only_step(recorder)
    assert sum(phases_of(step)) == step["step_ns"]


def test_an_inner_phase_is_taken_out_of_the_outer_one(recorder: Recorder) -> None:
    recorder.measures(FORWARD, COLLECTIVE_WAIT)
    outer = recorder.enter(FORWARD)
    inner = recorder.enter(COLLECTIVE_WAIT)
    sleep(PAUSE)
    recorder.leave(inner)
    recorder.leave(outer)
    recorder.finish()
    step = only_step(recorder)
    assert step["collective_wait_ns"] >= PAUSE_NS > step["forward_ns"]


def test_the_loss_is_forward_if_a_backward_follows(recorder: Recorder) -> None:
    recorder.measures(FORWARD)
    recorder.leave_forward(recorder.enter(FORWARD))
    sleep(PAUSE)
    recorder.leave(recorder.enter_backward())
    recorder.finish()
    step = only_step(recorder)
    assert step["forward_ns"] >= PAUSE_NS > step["backward_ns"]


def test_what_follows_a_forward_without_a_backward_is_other(recorder: Recorder) -> None:
    recorder.measures(FORWARD)
    recorder.leave_forward(recorder.enter(FORWARD))
    sleep(PAUSE)
    recorder.finish()
    step = only_step(recorder)
    assert step["other_ns"] >= PAUSE_NS > step["forward_ns"]


def test_a_closure_s_forward_and_backward_are_not_the_optimizer_s(recorder: Recorder) -> None:
    recorder.measures(FORWARD)
    outer = recorder.enter(OPTIMIZER)
    recorder.leave_forward(recorder.enter(FORWARD))
    recorder.leave(recorder.enter_backward())
    sleep(PAUSE)  # the closure is done: this is the optimizer's own work
    recorder.leave(outer)
    recorder.finish()
    step = only_step(recorder)
    assert step["optimizer_ns"] >= PAUSE_NS > step["forward_ns"] + step["backward_ns"]


def test_a_charge_is_taken_from_the_current_phase(recorder: Recorder) -> None:
    from time import perf_counter_ns

    recorder.measures(FORWARD, H2D)
    outer = recorder.enter(FORWARD)
    since = perf_counter_ns()
    sleep(PAUSE)
    recorder.charge(H2D, since)
    recorder.leave(outer)
    recorder.finish()
    step = only_step(recorder)
    assert step["h2d_ns"] >= PAUSE_NS > step["forward_ns"]


def test_time_between_two_steps_belongs_to_the_second(recorder: Recorder) -> None:
    recorder.finish()
    sleep(PAUSE)
    recorder.finish()
    first, second = recorded(recorder).values[:, VALUES.index("other_ns")]
    assert first < PAUSE_NS <= second


def test_the_first_step_is_tagged_and_begins_with_its_first_phase() -> None:
    recorder = Recorder(Ring())
    sleep(PAUSE)  # building the model
    recorder.leave(recorder.enter(DATALOADER))
    recorder.finish()
    recorder.finish()
    records = recorded(recorder)
    assert records.tags.tolist() == [Tag.WARMUP, 0]
    assert records.values[0, VALUES.index("step_ns")] < PAUSE_NS


def test_steps_are_numbered_and_end_one_after_the_other(recorder: Recorder) -> None:
    for _ in range(5):
        recorder.finish()
    records = recorded(recorder)
    assert records.step.tolist() == [1, 2, 3, 4, 5]
    assert (records.end_ns[1:] - records.values[1:, 0] == records.end_ns[:-1]).all()


def test_a_step_that_was_abandoned_leaves_no_trace(recorder: Recorder) -> None:
    recorder.enter(OPTIMIZER)
    recorder.optimizer_depth = 1
    sleep(PAUSE)
    recorder.abandon()
    recorder.finish()
    step = only_step(recorder)
    assert step["step_ns"] < PAUSE_NS
    assert recorder.optimizer_depth == 0


def test_what_is_not_measured_is_absent_and_what_did_not_happen_is_zero(recorder: Recorder) -> None:
    recorder.measures(DATALOADER)
    recorder.finish()
    step = only_step(recorder)
    assert step["dataloader_ns"] == 0
    assert all(math.isnan(step[f"{phase}_ns"]) for phase in ("h2d", "forward", "collective_wait"))


def test_a_backward_without_its_mark_makes_backward_and_wait_absent_for_that_step(
    recorder: Recorder,
) -> None:
    recorder.measures(COLLECTIVE_WAIT)
    recorder.leave(recorder.enter_backward())
    recorder.unmarked()
    recorder.finish()
    recorder.finish()
    unmarked, marked = recorded(recorder).values
    columns = [VALUES.index("backward_ns"), VALUES.index("collective_wait_ns")]
    assert [math.isnan(value) for value in unmarked[columns]] == [True, True]
    assert marked[columns].tolist() == [0, 0]


def test_own_overhead_is_priced_by_the_marks_of_a_step(recorder: Recorder) -> None:
    recorder.finish()
    for _ in range(1000):
        recorder.leave(recorder.enter(OTHER))
    recorder.finish()
    few, many = recorded(recorder).values[:, VALUES.index("overhead_ns")]
    assert many > 10 * few > 0


def test_a_recorder_knows_the_thread_that_made_it() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(Recorder(Ring()).thread))
    thread.start()
    thread.join()
    assert found == [thread.ident]

"""Two clocks, one training: the steps by both, put side by side."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rank.stream import Training
from tests.rank.tape import THREAD, Step, Tape, steps_of
from tests.rank.test_replay import tapes
from traceml.rank import clocks as joining
from traceml.rank import events
from traceml.rank.clocks import Clocks
from traceml.rank.device_clock import STOPPED, ends_segment
from traceml.rank.events import Entry
from traceml.rank.slots import FORWARDS
from traceml.wire.columns import DEVICE_TIMES, TIMES


def with_device_times(entries: Sequence[Entry], lag: int, given_up: set[int]) -> list[Entry]:
    """As a training thread would write them whose device keeps the CPU's time, but is behind."""
    written: list[Entry] = [(events.DEVICE, 1, THREAD)]
    answers: list[Entry] = []
    times: list[int] = []
    for entry in entries:
        written.append(entry)
        if entry[0] > events.ABANDON:
            continue
        times.append(entry[1])
        if ends_segment(entry[0], len(times)):
            answer = None if len(answers) in given_up else (times, 0)
            answers.append((events.DEVICE_TIMES, answer, THREAD))
            times = []
            if len(answers) > lag:
                written.append(answers[len(answers) - lag - 1])
    return written + answers[max(len(answers) - lag, 0) :]


def both(entries: Sequence[Entry], cut: int = 0) -> list[Step]:
    training = Training()
    training.recorder.clear()
    clocks = Clocks(training.recorder, training.clock)
    pairs = clocks.feed(entries[:cut]) + clocks.feed(entries[cut:]) + clocks.finish()
    return steps_of([row for row, _ in pairs], [timed for _, timed in pairs])


def is_timed(step: Step) -> bool:
    return not math.isnan(step["device_step"])


@given(tapes(), st.integers(0, 3), st.integers(0, 30))
def test_where_both_clocks_agree_so_do_the_steps(tape: Tape, lag: int, cut: int) -> None:
    alone = both(tape.entries)
    steps = both(with_device_times(tape.entries, lag, set()), cut)
    assert [step.number for step in steps] == [step.number for step in alone]
    for step in steps[1:]:
        if is_timed(step):
            for cpu, device in zip(TIMES[:-1], DEVICE_TIMES[:-1], strict=True):
                assert step.values[device] == pytest.approx(step.values[cpu], nan_ok=True)


@given(tapes(), st.integers(0, 3), st.sets(st.integers(0, 5)))
def test_steps_are_the_same_whatever_is_given_up(tape: Tape, lag: int, given_up: set[int]) -> None:
    alone = both(tape.entries)
    steps = both(with_device_times(tape.entries, lag, given_up))
    assert [(s.number, s.tags, s["step"]) for s in steps] == [
        (s.number, s.tags, s["step"]) for s in alone
    ]


def test_in_a_loop_without_scopes_all_but_the_first_step_are_timed() -> None:
    tape = Tape()
    for _ in range(6):
        tape.fetch(3).step().pause(2)
    steps = both(with_device_times(tape.entries, 2, set()))
    assert [step.number for step in steps if is_timed(step)] == [1, 2, 3, 4, 5]
    assert steps[3]["device_step"] == 40


def test_the_last_steps_go_without_times_where_the_device_has_not_told_them() -> None:
    training = Training()
    for _ in range(5):
        training.step()
        training.stream.catch_up()
    for _ in range(3):
        training.step()
    steps = training.steps(ended=True)
    assert [step.number for step in steps] == list(range(8))
    assert [step.number for step in steps if is_timed(step)] == [1, 2, 3, 4]


def test_where_entries_were_lost_the_device_keeps_time_no_more() -> None:
    training = Training(capacity=64)
    for _ in range(30):
        training.step()
        training.stream.catch_up()
    training.steps()
    assert STOPPED in training.recorder.notes
    assert training.recorder.device is None
    recorded = training.stream.recorded
    for _ in range(70):
        training.recorder.finish()
        training.steps()
    assert training.stream.recorded == recorded
    assert len(training.clocks._held) == 0


def test_no_more_than_so_many_steps_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "HELD_STEPS", 10)
    training = Training()
    for _ in range(25):
        training.step()
    assert [step.number for step in training.steps()] == list(range(15))


def test_replays_that_come_to_differ_are_no_longer_joined() -> None:
    training = Training()
    for _ in range(4):
        training.step()
        training.stream.catch_up()
    timed = training.clocks._timed
    assert timed is not None
    timed._replay.phases.row[FORWARDS] += 1
    steps = training.steps()
    assert not any(map(is_timed, steps))
    assert STOPPED in training.recorder.notes


def test_the_second_replay_says_nothing_a_second_time() -> None:
    training = Training()
    training.recorder.clear()
    training.recorder.optimizers_made = 0
    entries = Tape().fetch().forward().backward().fetch().forward().backward().fetch().entries
    clocks = Clocks(training.recorder, training.clock)
    clocks.feed([(events.DEVICE, 1, THREAD), *entries])
    training.recorder.notes.clear()
    training.recorder.blind = training.recorder.attention = False
    clocks.finish()
    assert training.recorder.notes == {}
    assert not training.recorder.attention


def test_a_device_that_stands_still_is_in_the_phase_of_the_marks_it_has_passed() -> None:
    training = Training()
    training.step()
    training.stream.catch_up()
    during = {"forward": 5, "backward": 25, "collective_wait": 35, "optimizer": 41}
    start = training.stream.end_ms
    training.step(wait=8)
    training.steps()
    for phase, ms in during.items():
        training.stream.now_ms = start + ms
        assert training.clocks.device_phase == phase
    training.stream.catch_up()
    assert training.clocks.device_phase == ""


def test_nobody_asks_a_device_where_it_is_while_a_graph_is_captured() -> None:
    training = Training()
    training.step()
    training.steps()
    assert training.clocks.device_phase == "forward"
    training.clock.is_captured = True
    queried = training.stream.queried
    assert training.clocks.device_phase == ""
    assert training.stream.queried == queried


def test_a_device_that_keeps_the_cpu_s_pace_idles_within_compute_alone() -> None:
    tape = Tape()
    for _ in range(4):
        tape.fetch(3).pause(2).forward(10).pause(1).during(events.WAIT, 7)
        tape.backward(20).optimizer(5)
    last = both(with_device_times(tape.entries, 0, set()))[-1]
    assert last["device_step"] == 3 + 2 + 10 + 1 + 7 + 20 + 5
    assert last.values["device_idle_ns"] == 10 + 1 + 20 + 5

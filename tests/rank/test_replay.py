"""Entries become steps: at any instant the training is in exactly one phase.

The entries are written by hand at times chosen by hand, so every figure is exact.
"""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rank.tape import Step, Tape, replayed, steps_of
from traceml.rank import events
from traceml.rank.events import NOBODY, Recorder
from traceml.rank.replay import BLIND, BY_HAND, LOST, Replay
from traceml.wire.tags import Tag

STEP = {"forward": 10, "backward": 20, "optimizer": 5}  # as Tape.step makes it


def only(tape: Tape) -> Step:
    """The one step on this tape."""
    (step,) = replayed(tape)
    return step


def last(tape: Tape) -> Step:
    return replayed(tape)[-1]


# -- what holds for any entries

_AT = st.tuples(st.just("at"), st.sampled_from(range(events.FETCH, events.ZERO_GRAD + 1)))
_END = st.just(("at", events.SCOPE_END))
_DURING = st.tuples(
    st.just("during"),
    st.sampled_from(
        [
            events.FETCH, events.FORWARD_TRAIN, events.FORWARD_UNSURE, events.FORWARD_EVAL,
            events.BACKWARD, events.GRADIENT, events.OPTIMIZER,
        ]
    ),
)  # fmt: skip
_NOTE = st.tuples(
    st.just("note"),
    st.one_of(
        st.tuples(st.just(events.BATCH), st.integers(0, 100).map(lambda n: torch.Size((n, 3)))),
        st.tuples(st.just(events.WHICH), st.integers(0, 2)),
        st.tuples(st.just(events.TAG), st.sampled_from([int(tag) for tag in Tag])),
        st.just((events.DISTRIBUTED, 1)),
    ),
)
_NS = st.integers(1, 50)
_FOUND = st.lists(st.tuples(st.one_of(_AT, _DURING, _DURING, _NOTE), _NS), max_size=30)
_SAID = st.lists(st.tuples(st.one_of(_AT, _DURING, _END, _NOTE), _NS), max_size=30)


@st.composite
def tapes(draw: st.DrawFn) -> Tape:
    """Anything, well nested or not; perhaps the user says from some point on where steps end."""
    tape = Tape()
    script: list[tuple[tuple[str, Any], int]] = draw(_FOUND)
    if draw(st.booleans()):
        script += [(("at", events.SCOPE), 1), *draw(_SAID)]
    for (kind, what), ns in script:
        if kind == "note":
            tape.note(*what)
        elif kind == "at":
            tape.pause(ns).at(what)
        else:
            tape.pause(ns).during(what, ns)
    return tape


@settings(max_examples=500)
@given(tapes(), st.integers(0, 1))
def test_whatever_happens_the_phases_add_up_and_the_steps_follow_each_other(
    tape: Tape, optimizers_made: int
) -> None:
    recorder = Recorder()
    recorder.optimizers_made = optimizers_made
    steps = replayed(tape, recorder)
    assert [step.number for step in steps] == list(range(len(steps)))
    for step in steps:
        if "other" in step.absent:  # its forward was not seen, though others' are
            assert "forward" in step.absent
        else:
            assert sum(step.phases.values()) == step["step"]
    for before, step in pairwise(steps):
        assert step.end > before.end
        assert step.end - step["step"] == before.end


@given(tapes(), st.data())
def test_entries_in_any_pieces_give_the_same_steps_as_all_at_once(
    tape: Tape, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tape.entries)), max_size=5)))
    at_once = Replay(Recorder())
    in_pieces = Replay(Recorder())
    rows = at_once.feed(tape.entries) + at_once.finish()
    pieces = [
        row
        for begin, end in pairwise([0, *cuts, len(tape.entries)])
        for row in in_pieces.feed(tape.entries[begin:end])
    ]
    assert pieces + in_pieces.finish() == rows
    assert (at_once.phases.current, at_once.phases.since) == (
        in_pieces.phases.current,
        in_pieces.phases.since,
    )


# -- phases


def test_each_phase_gets_its_time_and_what_is_between_them_is_other() -> None:
    tape = Tape().step().pause(2).fetch(3).pause(4).during(events.COPY, 6).step()
    assert last(tape).phases == STEP | {"dataloader": 3, "h2d": 6, "other": 2 + 4}
    assert last(tape)["step"] == 50


def test_an_inner_phase_is_taken_out_of_the_outer_one() -> None:
    tape = Tape().at(events.FORWARD_TRAIN).pause(3).during(events.WAIT, 7).pause(4)
    tape.at(events.FORWARD_END).backward(20).optimizer(5)
    assert only(tape).phases == STEP | {"forward": 3 + 4, "collective_wait": 7}


def test_a_copy_that_is_written_down_when_it_is_done_is_taken_out_of_its_phase() -> None:
    tape = Tape().at(events.FETCH).pause(3).during(events.COPY, 7).at(events.FETCH_END).step()
    assert only(tape).phases == STEP | {"dataloader": 3, "h2d": 7}


def test_a_model_within_a_model_is_one_forward() -> None:
    tape = Tape().at(events.FORWARD_TRAIN).pause(3).forward(4).pause(5).at(events.FORWARD_END)
    assert only(tape.pause(2).backward(20).optimizer(5)).phases == STEP | {"forward": 14}


def test_an_end_without_its_beginning_changes_nothing() -> None:
    tape = Tape().forward(10)
    for end in (events.FETCH_END, events.COPY_END, events.WAIT_END, events.BACKWARD_END):
        tape.pause(1).at(end)
    assert only(tape.backward(20).optimizer(5)).phases == STEP | {"forward": 14}


def test_the_loss_is_forward_if_a_backward_follows() -> None:
    assert only(Tape().forward(10).pause(7).backward(20).optimizer(5)).phases == {
        "forward": 17, "backward": 20, "optimizer": 5,
    }  # fmt: skip


def test_what_follows_a_forward_without_a_backward_is_other() -> None:
    tape = Tape().at(events.SCOPE).forward(10).pause(7).scope_end()
    assert only(tape).phases == {"forward": 10, "other": 7}


def test_each_of_the_accumulated_losses_is_forward() -> None:
    tape = Tape().forward(1).pause(2).backward(3).forward(4).pause(5).backward(6).optimizer(7)
    assert only(tape).phases == {"forward": 12, "backward": 9, "optimizer": 7}


def test_waiting_begins_where_the_gradients_are_ready() -> None:
    tape = Tape().forward(10).at(events.BACKWARD).pause(15).at(events.READY).pause(5)
    tape.at(events.BACKWARD_END).optimizer(5)
    assert only(tape).phases == STEP | {"backward": 15, "collective_wait": 5}


def test_waits_within_a_ready_backward_are_still_one_wait() -> None:
    tape = Tape().forward(10).at(events.BACKWARD).pause(15).at(events.READY)
    tape.during(events.WAIT, 5).at(events.BACKWARD_END).optimizer(5)
    assert only(tape).phases == STEP | {"backward": 15, "collective_wait": 5}


def test_activations_computed_again_are_backward() -> None:
    tape = Tape().forward(10).at(events.BACKWARD).pause(5).forward(8).pause(7)
    assert only(tape.at(events.BACKWARD_END).optimizer(5)).phases == STEP


def test_a_backward_within_a_backward_is_one_backward() -> None:
    tape = Tape().forward(10).at(events.BACKWARD).pause(5).backward(8).pause(7)
    assert only(tape.at(events.BACKWARD_END).optimizer(5)).phases == STEP


def test_a_model_that_differentiates_within_its_forward_is_forward() -> None:
    for code in (events.GRADIENT, events.BACKWARD):
        tape = Tape().at(events.FORWARD_TRAIN).pause(3).during(code, 4).pause(3)
        assert only(tape.at(events.FORWARD_END).backward(20).optimizer(5)).phases == STEP


def test_a_gradient_and_the_loss_that_uses_it_are_backward_and_forward() -> None:
    tape = Tape().forward(10).pause(2).during(events.GRADIENT, 6).pause(3).backward(20)
    assert only(tape.optimizer(5)).phases == {"forward": 15, "backward": 26, "optimizer": 5}


def test_a_gradient_taken_within_a_backward_is_backward_and_so_is_what_follows() -> None:
    tape = Tape().forward(10).at(events.BACKWARD).pause(2).during(events.GRADIENT, 8).pause(10)
    assert only(tape.at(events.BACKWARD_END).optimizer(5)).phases == STEP


def test_what_an_optimizer_does_with_a_gradient_it_took_is_the_optimizer_s() -> None:
    tape = Tape().forward(10).backward(20).at(events.OPTIMIZER).pause(2)
    tape.during(events.GRADIENT, 8).pause(3).at(events.OPTIMIZER_END)
    assert only(tape).phases == {"forward": 10, "backward": 28, "optimizer": 5}


# -- optimizers


def test_a_closure_s_forward_and_backward_are_not_the_optimizer_s() -> None:
    tape = Tape().at(events.OPTIMIZER).pause(1).forward(10).pause(2).backward(20).pause(4)
    assert only(tape.at(events.OPTIMIZER_END)).phases == {
        "forward": 12, "backward": 20, "optimizer": 5,
    }  # fmt: skip


def test_lbfgs_that_calls_its_closure_again_and_again_makes_one_step_each() -> None:
    tape = Tape()
    for _ in range(3):
        tape.fetch(2).at(events.OPTIMIZER)
        for _ in range(4):
            tape.pause(1).forward(10).backward(20)
        tape.pause(1).at(events.OPTIMIZER_END)
    steps = replayed(tape)
    expected = {"dataloader": 2, "forward": 40, "backward": 80, "optimizer": 5}
    assert [step.phases for step in steps] == [expected] * 3


def test_a_step_that_calls_super_is_counted_once() -> None:
    tape = Tape()
    for _ in range(3):
        tape.forward(10).backward(20).at(events.OPTIMIZER).pause(1).at(events.OPTIMIZER).pause(2)
        tape.at(events.OPTIMIZER_END).pause(2).at(events.OPTIMIZER_END)
    assert [step.phases for step in replayed(tape)] == [STEP] * 3


def test_an_optimizer_that_raised_does_not_swallow_the_steps_after_it() -> None:
    tape = Tape().step().forward(10).backward(20).at(events.OPTIMIZER).pause(9)
    for _ in range(3):
        tape.fetch(2).step()
    steps = replayed(tape)
    assert len(steps) == 1 + 3
    assert [step.phases for step in steps[2:]] == [STEP | {"dataloader": 2}] * 2
    assert {phase: steps[1][phase] for phase in STEP} == {
        "forward": 20, "backward": 40, "optimizer": 14,
    }  # fmt: skip


def test_optimizers_that_step_within_the_backward_make_one_step_of_it() -> None:
    tape = Tape()
    for _ in range(3):
        tape.forward(10).at(events.BACKWARD).pause(8).optimizer(2, which=0).pause(6)
        tape.optimizer(3, which=1).pause(6).at(events.BACKWARD_END)
    assert [step.phases for step in replayed(tape)] == [STEP] * 3


def test_a_scaler_that_updates_after_the_optimizer_belongs_to_the_same_step() -> None:
    tape = Tape()
    for _ in range(3):
        tape.forward(10).backward(20).optimizer(3).pause(4).during(events.OPTIMIZER, 2)
    assert [step.phases for step in replayed(tape)] == [STEP | {"other": 4}] * 3


def test_two_optimizers_of_a_gan_share_a_step() -> None:
    tape = Tape()
    for _ in range(3):
        tape.fetch(2).step(which=0).step(which=1)
    expected = {"dataloader": 2, "forward": 20, "backward": 40, "optimizer": 10}
    assert [step.phases for step in replayed(tape)] == [expected] * 3


# -- tags


def tags(tape: Tape) -> list[int]:
    return [step.tags for step in replayed(tape)]


def test_the_first_step_of_each_optimizer_is_a_warm_up() -> None:
    tape = Tape().fetch().step(0).fetch().step(0).fetch().step(0).step(1).fetch().step(0).step(1)
    assert tags(tape) == [Tag.WARMUP, 0, Tag.WARMUP, 0]


def test_the_first_step_is_a_warm_up_even_if_no_optimizer_steps() -> None:
    tape = Tape().at(events.SCOPE).pause(1).scope_end().pause(1).scope_end()
    assert tags(tape) == [Tag.WARMUP, 0]


@pytest.mark.parametrize(
    ("kind", "backward", "tag"),
    [
        (events.FORWARD_TRAIN, True, 0),
        (events.FORWARD_TRAIN, False, 0),
        (events.FORWARD_QUIET, False, 0),  # a teacher's, or a rollout's
        (events.FORWARD_EVAL, False, Tag.EVAL),
        (events.FORWARD_UNSURE, True, 0),  # training in eval mode
        (events.FORWARD_UNSURE, False, Tag.EVAL),  # somebody forgot no_grad
    ],
)
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("fetches", [True, False])
def test_a_forward_without_training_between_two_steps_tags_the_second(
    kind: int, backward: bool, tag: int, times: int, fetches: bool
) -> None:
    tape = Tape().fetch().step().fetch().step()
    for _ in range(times):
        if fetches:
            tape.fetch()
        tape.forward(10, kind)
        if backward:
            tape.backward()
    tape.fetch().step().fetch().step()
    assert tags(tape) == [Tag.WARMUP, 0, tag, 0]
    assert replayed(tape)[2]["forward"] >= 10 * times + 10


def test_training_in_eval_mode_is_no_evaluation() -> None:
    tape = Tape()
    for _ in range(4):
        tape.fetch().forward(10, events.FORWARD_UNSURE).backward(20).optimizer(5)
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0]


def test_a_frozen_backbone_in_eval_mode_before_the_head_is_no_evaluation() -> None:
    tape = Tape()
    for _ in range(4):
        tape.fetch().forward(6, events.FORWARD_UNSURE).forward(4).backward(20).optimizer(5)
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0]


def test_a_part_in_eval_mode_within_the_model_s_forward_is_no_evaluation() -> None:
    tape = Tape()
    for _ in range(4):
        tape.at(events.FORWARD_TRAIN).forward(3, events.FORWARD_UNSURE).at(events.FORWARD_END)
        tape.backward(20).optimizer(5)
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0]


@pytest.mark.parametrize("kind", [events.FORWARD_TRAIN, events.FORWARD_UNSURE])
def test_activations_computed_again_are_no_evaluation(kind: int) -> None:
    tape = Tape()
    for _ in range(4):
        tape.forward(10).at(events.BACKWARD).forward(5, kind).at(events.BACKWARD_END).optimizer(5)
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0]


def test_a_fetch_without_gradients_is_an_evaluation_s() -> None:
    tape = Tape().fetch().step().fetch().step().during(events.FETCH_EVAL, 1).fetch().step()
    assert tags(tape.fetch().step()) == [Tag.WARMUP, 0, Tag.EVAL, 0]


def test_a_checkpoint_between_two_steps_tags_the_second() -> None:
    tape = Tape().step().step().note(events.TAG, Tag.CHECKPOINT).step().step()
    assert tags(tape) == [Tag.WARMUP, 0, Tag.CHECKPOINT, 0]


def test_a_tag_given_within_a_step_is_that_step_s() -> None:
    tape = Tape().step().step().forward().note(events.TAG, Tag.USER).backward().optimizer().step()
    assert tags(tape) == [Tag.WARMUP, 0, Tag.USER, 0]


def test_what_comes_after_the_last_step_tags_nothing() -> None:
    tape = Tape().step().step().forward(10, events.FORWARD_EVAL).note(events.TAG, Tag.CHECKPOINT)
    assert tags(tape) == [Tag.WARMUP, 0]


# -- what is not measured


def test_what_never_happened_is_absent_and_what_did_before_is_zero() -> None:
    steps = replayed(Tape().fetch(2).step().step().fetch(2).step())
    assert [step["dataloader"] for step in steps] == [2, 0, 2]
    assert [step.absent for step in steps] == [{"h2d", "collective_wait"}] * 3


def test_a_distributed_training_that_never_waited_waited_for_nothing() -> None:
    assert only(Tape().note(events.DISTRIBUTED).step())["collective_wait"] == 0


def test_a_backward_without_its_mark_makes_backward_and_wait_absent_for_that_step() -> None:
    tape = Tape().note(events.DISTRIBUTED).step().forward(10).backward(20)
    tape.note(events.UNMARKED).optimizer(5).step()
    steps = replayed(tape)
    assert [step.absent & {"backward", "collective_wait"} for step in steps] == [
        set(), {"backward", "collective_wait"}, set(),
    ]  # fmt: skip
    assert [step["step"] for step in steps] == [35] * 3


def test_samples_and_elements_are_summed_over_the_fetches_of_a_step() -> None:
    tape = Tape()
    for _ in range(2):
        tape.fetch().note(events.BATCH, torch.Size((4, 3)))
    step = only(tape.step())
    assert (step.values["samples"], step.values["elements"]) == (8, 24)
    assert math.isnan(only(Tape().step()).values["samples"])


def test_own_overhead_is_priced_by_the_entries_of_a_step() -> None:
    few, many = Tape().step(), Tape().step()
    for _ in range(100):
        many.during(events.WAIT, 1)
    few_ns, many_ns = (last(tape.step()).values["overhead_ns"] for tape in (few, many))
    assert many_ns - few_ns == 200
    assert few_ns > 0


# -- where steps begin and end


def test_the_first_step_begins_with_its_first_phase() -> None:
    first, second = replayed(Tape(start=10**9).step().pause(7).step())
    assert (first["step"], second["step"]) == (35, 42)


def test_time_between_two_steps_belongs_to_the_second() -> None:
    first, second = replayed(Tape().step().pause(7).step())
    assert (first["other"], second["other"]) == (0, 7)
    assert second.end - first.end == second["step"]


def test_a_step_is_told_as_soon_as_the_next_one_shows_that_it_was_over() -> None:
    replay = Replay(Recorder())
    assert replay.feed(Tape().fetch().step().entries) == []
    assert len(replay.feed(Tape(2_000).fetch().entries)) == 1


def test_the_last_step_is_settled_by_the_end_and_only_once() -> None:
    replay = Replay(Recorder())
    assert replay.feed(Tape().step().entries) == []
    assert [step.phases for step in steps_of(replay.finish())] == [STEP]
    assert replay.finish() == []


def test_a_step_that_was_cut_short_by_the_end_is_none() -> None:
    assert len(replayed(Tape().step().step().forward().backward())) == 2
    assert replayed(Tape().forward().at(events.BACKWARD)) == []


def test_evaluations_alone_are_no_steps() -> None:
    tape = Tape()
    for _ in range(5):
        tape.fetch().forward(10, events.FORWARD_EVAL)
    assert replayed(tape) == []


# -- scopes of the user's


def scope(tape: Tape) -> Tape:
    """One step, 40 long, of a loop that says where steps end."""
    return tape.fetch(2).step().pause(3).scope_end()


def test_scopes_win_over_what_optimizers_do_and_count_once() -> None:
    tape = Tape().fetch(2).at(events.SCOPE).step().pause(3).scope_end()
    for _ in range(2):
        scope(tape)
    assert [step.phases for step in replayed(tape)] == [STEP | {"dataloader": 2, "other": 3}] * 3


def test_several_optimizer_steps_in_a_scope_are_one_step() -> None:
    tape = Tape().at(events.SCOPE)
    for _ in range(3):
        tape.fetch(2).step().step().pause(3).scope_end()
    assert [step["optimizer"] for step in replayed(tape)] == [10] * 3


def test_updates_by_hand_in_a_scope_are_one_step() -> None:
    recorder, tape = Recorder(), Tape().at(events.SCOPE)
    for _ in range(3):
        tape.forward().backward().pause(5).scope_end()
    assert len(replayed(tape, recorder)) == 3
    assert BY_HAND not in recorder.notes


def test_scopes_after_steps_that_were_found_go_on_counting() -> None:
    tape = Tape().step().step().pause(1).at(events.SCOPE)
    for _ in range(3):
        scope(tape)
    steps = replayed(tape)
    assert [step.number for step in steps] == [0, 1, 2, 3, 4]
    assert [step["step"] for step in steps] == [35, 35, 41, 40, 40]


def test_phases_that_a_scope_cut_short_do_not_reach_into_the_next() -> None:
    tape = Tape().at(events.SCOPE).at(events.FORWARD_TRAIN).pause(10).scope_end().pause(4)
    first, second = replayed(tape.scope_end())
    assert (first.phases, second.phases) == ({"forward": 10}, {"other": 4})


def test_an_abandoned_step_leaves_no_trace() -> None:
    tape = scope(Tape().at(events.SCOPE)).fetch(2).at(events.OPTIMIZER).pause(99)
    tape.at(events.ABANDON)
    steps = replayed(scope(tape))
    assert [step.number for step in steps] == [0, 1]
    assert [step["step"] for step in steps] == [40, 40]


# -- updates by hand


def by_hand(tape: Tape, steps: int = 3) -> Tape:
    for _ in range(steps):
        tape.fetch(2).forward(10).backward(20).pause(4)
    return tape


def test_where_no_optimizer_steps_each_backward_is_a_step_and_a_note_says_so() -> None:
    recorder = Recorder()
    steps = replayed(by_hand(Tape()), recorder)
    measured = {"dataloader": 2, "forward": 10, "backward": 20}
    assert [step.phases for step in steps] == [*[measured | {"other": 4}] * 2, measured]
    assert list(recorder.notes) == [BY_HAND]


def test_without_fetches_updates_by_hand_end_with_the_next_forward() -> None:
    tape = Tape()
    for _ in range(3):
        tape.forward(10).pause(1).backward(20).pause(4)
    assert [step["step"] for step in replayed(tape, Recorder())] == [35, 35, 31]


def test_gradients_taken_by_hand_make_steps_too() -> None:
    tape = Tape()
    for _ in range(3):
        tape.forward(10).during(events.GRADIENT, 20).pause(4)
    steps = replayed(tape, Recorder())
    assert [step.phases for step in steps[:2]] == [
        {"forward": 10, "backward": 20, "other": 4},
        {"forward": 10, "backward": 20, "other": 4},
    ]
    assert len(steps) == 3


def test_an_optimizer_that_was_made_is_waited_for() -> None:
    recorder = Recorder()
    recorder.optimizers_made = 1
    steps = replayed(by_hand(Tape(), 2).optimizer(5), recorder)
    assert [step["backward"] for step in steps] == [40]
    assert recorder.notes == {}


def test_an_optimizer_that_only_zeroes_gradients_shows_where_rounds_begin() -> None:
    recorder, tape = Recorder(), Tape()
    recorder.optimizers_made = 1
    for _ in range(3):
        tape.at(events.ZERO_GRAD).forward(10).backward(20).pause(4)
    assert [step["backward"] for step in replayed(tape, recorder)] == [20, 20, 20]
    assert list(recorder.notes) == [BY_HAND]


def test_the_note_is_taken_back_when_an_optimizer_steps() -> None:
    recorder = Recorder()
    steps = replayed(by_hand(Tape()).step().step(), recorder)
    assert recorder.notes == {}
    assert [step.number for step in steps] == list(range(len(steps)))


# -- blindness


def blind(tape: Tape, steps: int) -> Tape:
    for _ in range(steps):
        tape.pause(10).backward(20).optimizer(5)
    return tape


def test_a_forward_that_is_never_seen_is_absent_and_its_time_is_other() -> None:
    steps = replayed(blind(Tape(), 3))
    assert [step["other"] for step in steps[1:]] == [10, 10]
    assert all("forward" in step.absent for step in steps[1:])


def test_a_gradient_does_not_hide_that_the_forward_is_not_seen() -> None:
    tape = Tape().step()
    for _ in range(2):
        tape.pause(10).during(events.GRADIENT, 6).pause(3).backward(20).optimizer(5)
    second = replayed(tape)[1]
    assert second.phases == {"backward": 26, "optimizer": 5}
    assert second["step"] == 44


def test_blindness_asks_for_another_look_at_once_and_is_said_after_some_steps() -> None:
    recorder = Recorder()
    replay = Replay(recorder)
    replay.feed(blind(Tape(), 3).entries)
    assert recorder.blind
    assert recorder.attention
    assert BLIND not in recorder.notes
    replay.feed(blind(Tape(9_000), 4).entries)
    assert BLIND in recorder.notes


def test_steps_that_were_blind_now_and_then_are_nothing_to_speak_of() -> None:
    recorder, tape = Recorder(), Tape()
    for _ in range(10):
        blind(tape, 2).step()
    replayed(tape, recorder)
    assert BLIND not in recorder.notes


# -- entries that were lost


def test_scopes_find_their_number_again_and_the_lost_ones_are_counted() -> None:
    replay = Replay(Recorder())
    tape = scope(scope(Tape().at(events.SCOPE)))
    assert len(replay.feed(tape.entries)) == 2
    later = scope(scope(Tape(9_000))).note(events.NUMBER, 64)
    assert replay.feed(later.entries, lost=True) == []
    scopes = steps_of(replay.feed(scope(scope(Tape(later.now))).entries))
    assert [step.number for step in scopes] == [64, 65]
    assert [step["step"] for step in scopes] == [40, 40]
    assert replay.dropped == 64 - 2


def test_numbers_of_scopes_count_from_the_steps_that_were_found_before_them() -> None:
    replay = Replay(Recorder())
    replay.feed(scope(Tape().step().step().pause(1).at(events.SCOPE)).entries)
    assert replay.steps == 3
    later = scope(Tape(9_000)).note(events.NUMBER, 64)
    replay.feed(later.entries, lost=True)
    (step,) = steps_of(replay.feed(scope(Tape(later.now)).entries))
    assert step.number == 2 + 64
    assert replay.dropped == 63


def test_a_number_that_was_expected_changes_nothing() -> None:
    tape = Tape().at(events.SCOPE)
    for number in range(1, 4):
        scope(tape).note(events.NUMBER, number)
    assert [step.number for step in replayed(tape)] == [0, 1, 2]


def test_where_steps_are_found_a_loss_ends_the_recording_and_a_note_says_so() -> None:
    recorder = Recorder()
    replay = Replay(recorder)
    assert len(replay.feed(Tape().step().step().step().entries)) == 2
    replay.feed([], lost=True)
    assert recorder.thread == NOBODY
    assert list(recorder.notes) == [LOST]


def test_after_a_loss_no_step_is_made_up_from_what_is_left() -> None:
    replay = Replay(Recorder())
    before = replay.feed(Tape().step().step().step().entries)
    after = replay.feed(Tape(9_000).step().step().step().entries, lost=True) + replay.finish()
    assert [step["step"] for step in steps_of(before + after) if step["step"] != 35] == []
    assert len(after) <= 1  # the step that was complete before the loss


def test_what_is_lost_before_the_first_step_does_not_matter() -> None:
    recorder = Recorder()
    replay = Replay(recorder)
    rows = replay.feed(Tape().fetch().step().step().entries, lost=True) + replay.finish()
    assert len(rows) == 2
    assert recorder.thread != NOBODY
    assert recorder.notes == {}


# -- evaluations


def test_what_is_done_in_most_steps_is_no_evaluation() -> None:
    tape = Tape()
    for _ in range(6):
        tape.fetch().forward(3, events.FORWARD_FROZEN).step()
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0, 0, 0]


def test_saving_in_most_steps_is_part_of_them_unless_the_user_says_otherwise() -> None:
    saving, said = Tape(), Tape()
    for _ in range(8):
        saving.step().note(events.TAG, events.SAVED)
        said.step().note(events.TAG, Tag.CHECKPOINT)
    assert tags(saving).count(Tag.CHECKPOINT) <= 1
    assert tags(said)[1:] == [Tag.CHECKPOINT] * 7


def test_a_teacher_does_not_hide_an_evaluation_of_the_model_or_with_another_loader() -> None:
    tape = Tape()
    for number in range(8):
        if number == 3:
            tape.forward(9, events.FORWARD_EVAL)
        if number == 6:
            tape.during(events.FETCH_EVAL, 9)
        tape.fetch().forward(3, events.FORWARD_FROZEN).step()
    assert tags(tape) == [Tag.WARMUP, 0, 0, Tag.EVAL, 0, 0, Tag.EVAL, 0]


def test_an_average_that_is_evaluated_now_and_then_is_an_evaluation() -> None:
    tape = Tape()
    for number in range(8):
        if number == 5:
            tape.forward(9, events.FORWARD_FROZEN)
        tape.fetch().step()
    assert tags(tape) == [Tag.WARMUP, 0, 0, 0, 0, Tag.EVAL, 0, 0]


def test_the_time_of_a_forward_that_is_not_seen_does_not_pass_for_other() -> None:
    tape = Tape().step().step().pause(7).backward(20).optimizer(5).step()
    blind = replayed(tape)[2]
    assert blind.phases == {"backward": 20, "optimizer": 5}
    assert blind["step"] == 32


def test_a_wait_is_counted_in_the_place_where_it_was() -> None:
    tape = Tape()
    for _ in range(3):
        tape.at(events.FORWARD_TRAIN).pause(4).during(events.WAIT, 3).pause(1)
        tape.at(events.FORWARD_END).pause(1).during(events.WAIT, 2)  # in the loss
        tape.at(events.BACKWARD).pause(5).at(events.READY).pause(7).at(events.BACKWARD_END)
        tape.note(events.WHICH, 0).at(events.OPTIMIZER).pause(2)
        tape.during(events.WAIT, 11).at(events.OPTIMIZER_END).during(events.WAIT, 13)
    last = replayed(tape)[-2]
    assert last["collective_wait"] == 3 + 2 + 7 + 11 + 13
    assert (last["forward_wait"], last["optimizer_wait"], last["other_wait"]) == (5, 11, 13)


def test_where_nobody_has_waited_there_is_no_figure_of_it() -> None:
    tape = Tape().note(events.DISTRIBUTED)
    for _ in range(3):
        tape.step()
    last = replayed(tape)[-1]
    assert last["collective_wait"] == 0
    assert all(math.isnan(last[f"{place}_wait"]) for place in ("forward", "optimizer", "other"))


def test_waits_that_nobody_sees_are_absent_from_then_on() -> None:
    tape = Tape().note(events.DISTRIBUTED)
    for number in range(4):
        if number == 2:
            tape.note(events.UNSEEN)
        tape.forward(3).during(events.WAIT, 1).backward(4).optimizer(2)
    steps = replayed(tape)
    assert [step.absent & {"collective_wait", "backward"} for step in steps[1:]] == [
        set(), {"collective_wait"}, {"collective_wait"},
    ]  # fmt: skip
    assert math.isnan(steps[-1]["forward_wait"])

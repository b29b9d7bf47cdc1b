"""Where steps end in a loop that does not say so.

A loop is written as its events: `.` a fetch, `f` a forward, `b` a backward, `A` and
`B` steps of two optimizers. `|` stands where a step ends.
"""

import pytest

from traceml.rank.boundary import Boundary


def with_ends(loop: str) -> str:
    """The loop with a bar behind each step that is known to be over."""
    boundary, ends, candidate = Boundary(), [], 0
    for position, event in enumerate(loop):
        if event == ".":
            over = boundary.fetch()
        elif event == "f":
            over = boundary.forward()
        elif event == "b":
            boundary.active()
            over = False
        else:
            over = boundary.optimizer(ord(event))
        if over:
            ends.append(candidate)
        if event.isupper():
            boundary.stepped(ord(event))
            boundary.candidate()
            candidate = position + 1
    parts = [loop[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True)]
    return "|".join(parts)


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("fbA|fbA|fbA", id="one_optimizer"),
        pytest.param(".fbA|.fbA|.fbA", id="one_optimizer_with_fetches"),
        pytest.param("..fbA|..fbA|..fbA", id="two_fetches_a_step"),
        pytest.param(".fbA|.fbA|..fbA|.fbA", id="the_end_of_an_epoch"),
        pytest.param("fb.A|fb.A|fb.A", id="the_next_batch_fetched_before_the_optimizer_steps"),
        pytest.param("f.bA|f.bA|f.bA", id="the_next_batch_fetched_before_the_backward"),
        pytest.param("bA|bA|bA", id="forwards_that_are_not_seen"),
        pytest.param(".bA|.bA|.bA", id="forwards_that_are_not_seen_with_fetches"),
        pytest.param("ffbA|ffbA|ffbA", id="two_forwards_a_step"),
        pytest.param("fbbA|fbbA|fbbA", id="two_backwards_a_step"),
    ],
)
def test_one_optimizer_ends_a_step_each_time(loop: str) -> None:
    assert with_ends(loop.replace("|", "")) == loop


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("fbfbA|fbfbA|fbfbA", id="without_fetches"),
        pytest.param(".fb.fbA|.fb.fbA|.fb.fbA", id="with_fetches"),
        pytest.param("...fbfbfbA|...fbfbfbA|...", id="all_batches_fetched_first"),
        pytest.param(".fb.fbA|.fb.fbA|.fbA|.fb.fbA", id="a_short_last_round"),
    ],
)
def test_backwards_that_accumulate_are_one_step(loop: str) -> None:
    assert with_ends(loop.replace("|", "")) == loop


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(".fbAfbB|.fbAfbB|.fbAfbB", id="a_gan_with_fetches"),
        pytest.param("fbAfbB|fbAfbB|fbAfbB", id="a_gan_without"),
        pytest.param(".fbAbB|.fbAbB|.fbAbB", id="a_gan_that_shares_the_forward"),
        pytest.param("fbAbB|fbAbB|fbAbB", id="a_gan_that_shares_the_forward_without_fetches"),
        pytest.param("fbAB|fbAB|fbAB", id="one_backward_for_both"),
        pytest.param(".fbAB|.fbAB|.fbAB", id="one_backward_for_both_with_fetches"),
        pytest.param(".fbA|.fbA|.fbAfbB|.fbA|.fbA|.fbAfbB|.", id="a_wgan_with_a_batch_each"),
        pytest.param("fbAB|fbA|fbAB|fbA|fbAB|fbA", id="the_second_every_other_time"),
    ],
)
def test_different_optimizers_between_two_fetches_or_from_the_beginning_share_a_step(
    loop: str,
) -> None:
    assert with_ends(loop.replace("|", "")) == loop


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("fbA|fbA|fbA|fbB|fbB|fbB", id="without_fetches"),
        pytest.param(".fbA|.fbA|.fbB|.fbB|.fbB", id="with_fetches"),
        pytest.param("fbA|fbA|fbB|fbB|fbA|fbA", id="and_the_first_again"),
        pytest.param("fbA|fbA|fbA|fbB|fbA|fbA|fbA|fbB", id="a_wgan_without_fetches"),
    ],
)
def test_models_that_are_trained_one_after_another_have_steps_of_their_own(loop: str) -> None:
    assert with_ends(loop.replace("|", "")) == loop


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(".fbA|.fbA|.fbAfbB|.fbAfbB|.", id="with_fetches_it_shares_the_step"),
        pytest.param("fbA|fbA|fbAB|fbAB|fbAB", id="directly_behind_the_first_it_shares_the_step"),
        pytest.param("fbA|fbA|fbA|fbB|fbA|fbB", id="without_fetches_it_has_its_own"),
    ],
)
def test_a_second_optimizer_that_joins_after_the_first_was_warmed_up(loop: str) -> None:
    assert with_ends(loop.replace("|", "")) == loop


def test_the_same_optimizer_again_without_new_gradients_is_the_same_step() -> None:
    assert with_ends(".fbAA.fbAA.") == ".fbAA|.fbAA|."


def test_of_very_many_combinations_only_some_are_remembered() -> None:
    boundary = Boundary()
    for first in range(100):
        for which in (first, first + 1):
            boundary.optimizer(which)
            boundary.stepped(which)
            boundary.candidate()
        boundary.fetch()
    assert len(boundary._together) == 64

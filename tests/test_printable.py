from hypothesis import given
from hypothesis import strategies as st

from tests.strangers import CONTROL, ESCAPES
from traceml.printable import one_line, printable


def test_escapes_are_left_out_with_their_arguments() -> None:
    assert (
        printable("a\x1b[1;31mred\x1b[0m b\x1b]0;title\x07c\x1b]8;;http://x\x1b\\d\x9b2Je")
        == "ared bcde"
    )


def test_an_escape_that_never_ends_does_not_hide_what_follows() -> None:
    assert printable("a\x1b]0;b failed") == "a0;b failed"


def test_what_turns_the_direction_of_writing_is_shown_as_a_question_mark() -> None:
    assert printable("gpj\u202eexe.\u200b") == "gpj?exe.?"


def test_lines_stay_lines_and_a_name_has_but_one() -> None:
    assert printable("a\n\tb\r\nc") == "a\n\tb \nc"
    assert one_line(ESCAPES) == " over forged  completed"


@given(st.text())
def test_nothing_that_a_terminal_would_obey_comes_through(text: str) -> None:
    shown = printable(text + ESCAPES + text)
    assert not [each for each in shown if each in CONTROL and each != "\t"]
    assert one_line(text).isprintable()
    assert printable(shown) == shown


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text

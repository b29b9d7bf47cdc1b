import threading

from hypothesis import given
from hypothesis import strategies as st

from traceml.rank.ring import Ring
from traceml.rank.slots import STEP, WIDTH, Row


def row(number: int) -> Row:
    return [number] * WIDTH


@given(st.lists(st.integers(0, 12), max_size=12))
def test_what_is_taken_is_what_was_pushed_less_what_was_counted_as_dropped(
    pushes: list[int],
) -> None:
    ring = Ring(capacity=8)
    number, taken = 0, []
    for push in pushes:
        for _ in range(push):
            ring.push(row(number))
            number += 1
        taken += [of[STEP] for of in ring.take()]
    assert taken == sorted(set(taken))
    assert len(taken) + ring.dropped == number
    assert taken[-1:] in ([], [number - 1])


def test_nothing_is_lost_uncounted_while_both_sides_work() -> None:
    ring = Ring(capacity=64)
    done = threading.Event()

    def write() -> None:
        for number in range(100_000):
            ring.push(row(number))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    taken: list[int] = []
    while not done.is_set():
        taken += [of[STEP] for of in ring.take()]
    thread.join()
    taken += [of[STEP] for of in ring.take()]
    assert taken == sorted(set(taken))
    assert len(taken) + ring.dropped == 100_000

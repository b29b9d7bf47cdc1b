import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceml.rank.ring import Ring
from traceml.rank.slots import STEP, WIDTH
from traceml.wire.columns import Integers


def row(number: int) -> list[int]:
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
        rows = ring.take()
        assert (rows == rows[:, [STEP]]).all()
        taken += rows[:, STEP].tolist()
    assert taken == sorted(set(taken))
    assert len(taken) + ring.dropped == number
    assert taken[-1:] in ([], [number - 1])


def test_a_reader_never_sees_half_a_record() -> None:
    ring = Ring(capacity=64)
    done = threading.Event()

    def write() -> None:
        for number in range(100_000):
            ring.push(row(number))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    taken: list[Integers] = []
    while not done.is_set() or not taken:
        taken.append(ring.take())
    taken.append(ring.take())
    thread.join()
    rows = np.concatenate(taken)
    assert (rows == rows[:, [STEP]]).all()
    assert (np.diff(rows[:, STEP]) > 0).all()
    assert len(rows) + ring.dropped == 100_000

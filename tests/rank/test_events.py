"""Entries: bounded, written by one thread and read by another, nothing forgotten unnoticed."""

import threading
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceml.rank import events
from traceml.rank.events import NOBODY, NUMBERED_EVERY, Entry, Recorder

CAPACITY = 8


def entry(number: int) -> Entry:
    return events.TAG, number, 0


def test_an_entry_says_what_when_and_on_which_thread() -> None:
    recorder = Recorder()
    recorder.mark(events.READY)
    recorder.note(events.WHICH, 7)
    (ready, when, here), which = recorder.take()[0]
    assert (ready, here) == (events.READY, threading.get_ident())
    assert when > 0
    assert which == (events.WHICH, 7, threading.get_ident())


def test_codes_follow_each_other() -> None:
    codes = [
        *range(events.FETCH, events.ABANDON + 1),
        *range(events.BATCH, events.DEVICE_END + 1),
    ]
    assert codes == list(range(len(codes)))


@given(st.lists(st.integers(0, 2 * CAPACITY), max_size=12))
def test_what_is_taken_is_the_newest_and_forgetting_is_noticed(appends: list[int]) -> None:
    recorder = Recorder(capacity=CAPACITY)
    number = 0
    for append in appends:
        for _ in range(append):
            recorder.append(entry(number))
            number += 1
        taken, lost = recorder.take()
        assert taken == [entry(n) for n in range(number - min(append, CAPACITY), number)]
        if append > CAPACITY:
            assert lost
        if append <= CAPACITY // 2:
            assert not lost


def test_one_thread_writes_while_another_reads_and_nothing_is_missing() -> None:
    recorder = Recorder()
    done = threading.Event()

    def write() -> None:
        for number in range(200_000):
            recorder.append(entry(number))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    taken: list[Entry] = []
    lost = False
    while not done.is_set():
        entries, some_lost = recorder.take()
        taken += entries
        lost |= some_lost
    thread.join()
    taken += recorder.take()[0]
    assert ([number for _, number, _ in taken], lost) == (list(range(200_000)), False)


def test_forgetting_while_the_entries_are_being_taken_is_noticed() -> None:
    class Overtaken(deque[Entry]):
        """The writer gets its turn just as the reader takes the first."""

        def popleft(self) -> Entry:
            if self[0] == entry(0):
                self.extend(map(entry, range(7, 10)))
            return super().popleft()

    recorder = Recorder(capacity=CAPACITY)
    recorder._entries = Overtaken(map(entry, range(7)), maxlen=CAPACITY)
    first, lost = recorder.take()
    second, lost_later = recorder.take()
    assert first + second == [entry(number) for number in range(2, 10)]
    assert lost or lost_later


def test_the_price_of_an_entry_is_known_and_leaves_no_entry_behind() -> None:
    recorder = Recorder()
    assert recorder.price_ns > 0
    assert recorder.take() == ([], False)


def test_a_recorder_knows_the_thread_that_made_it() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(Recorder().thread))
    thread.start()
    thread.join()
    assert found == [thread.ident]


def test_after_silence_the_recorder_is_nobody_s() -> None:
    recorder = Recorder()
    recorder.silence()
    assert recorder.thread == NOBODY
    assert threading.get_ident() != NOBODY


def test_what_is_cleared_is_gone() -> None:
    recorder = Recorder()
    recorder.note(events.TAG)
    recorder.clear()
    assert recorder.take() == ([], False)


@pytest.mark.parametrize("times", [1, NUMBERED_EVERY - 1, NUMBERED_EVERY, 3 * NUMBERED_EVERY + 1])
def test_scopes_are_numbered_now_and_then(times: int) -> None:
    recorder = Recorder()
    for _ in range(times):
        recorder.finish()
    entries, _ = recorder.take()
    ended = 0
    for code, value, _ in entries:
        if code == events.NUMBER:
            assert value == ended
        else:
            assert code == events.SCOPE_END
            ended += 1
    assert ended == recorder.scopes == times
    assert len(entries) - ended == times // NUMBERED_EVERY

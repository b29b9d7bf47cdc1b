"""Whatever is cut off or altered, all else is there again."""

from pathlib import Path

import pytest

from tests.builders import Clock, look
from tests.sidecar.told import RUN, Store, Teller, plain, steps
from traceml.sidecar.journal import path_of
from traceml.sidecar.recovery import recover
from traceml.snapshot import Snapshot

BATCHES = 4
STEPS = 3  # a batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The journal of a run of one rank: four batches, then the sidecar was killed."""
    store = Store(tmp_path / "journal")
    store.open()
    teller = Teller(0, 1)
    store.tell(teller.hello())
    for number in range(BATCHES):
        teller.make(steps(number * STEPS, STEPS, 0))
        teller.deliver(store)
    store.crash()
    return store.folder


def seen(folder: Path) -> Snapshot:
    recovered = recover(folder, RUN).collector
    assert recovered is not None
    return look(recovered)


def test_all_that_was_acknowledged_is_there(folder: Path) -> None:
    assert seen(folder).steps.completed == BATCHES * STEPS


def test_a_segment_cut_at_any_byte_gives_every_batch_before_the_cut(folder: Path) -> None:
    segment = path_of(folder, 1, "segment")
    whole = segment.read_bytes()
    completed = []
    for cut in range(len(whole), -1, -1):
        segment.write_bytes(whole[:cut])
        completed.append(seen(folder).steps.completed)
    assert completed == sorted(completed, reverse=True)
    assert set(completed) == {number * STEPS for number in range(BATCHES + 1)}
    assert completed.count(BATCHES * STEPS) == 1  # every byte of the last batch is needed


def test_a_rank_that_resends_after_a_cut_at_any_byte_makes_the_run_whole(folder: Path) -> None:
    segment = path_of(folder, 1, "segment")
    whole = segment.read_bytes()
    for cut in range(0, len(whole), 7):
        for file in folder.iterdir():
            if file.suffix in (".segment", ".checkpoint") and file.stem != "00000001":
                file.unlink()
        segment.write_bytes(whole[:cut])
        store = Store(folder)
        store.open()
        teller = Teller(0, 1)
        for number in range(BATCHES):
            teller.make(steps(number * STEPS, STEPS, 0))
        while teller.unacknowledged:
            teller.deliver(store)
        rank = look(store.collector).ranks[0]
        assert look(store.collector).steps.completed == BATCHES * STEPS
        assert (rank.records_received, sum(rank.records_dropped.values())) == (BATCHES * STEPS, 0)
        store.crash()


def test_an_altered_byte_costs_one_batch_and_the_loss_is_counted_when_the_rank_goes_on(
    folder: Path,
) -> None:
    segment = path_of(folder, 1, "segment")
    whole = segment.read_bytes()
    place = whole.index(b"session 0", len(whole) // 3)  # inside a batch, not the last
    segment.write_bytes(whole[:place] + b"X" + whole[place + 1 :])
    store = Store(folder)
    store.open()
    assert look(store.collector).steps.completed == (BATCHES - 1) * STEPS
    teller = Teller(0, 1, sequence=BATCHES, made=BATCHES * STEPS)
    teller.make(steps(BATCHES * STEPS, STEPS, 0))
    teller.deliver(store)
    rank = look(store.collector).ranks[0]
    assert rank.records_received == BATCHES * STEPS
    assert rank.records_dropped["unjournaled"] == STEPS


def test_what_was_torn_is_no_damage_and_what_was_altered_is(folder: Path) -> None:
    segment = path_of(folder, 1, "segment")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    torn = recover(folder, RUN)
    assert (torn.torn_bytes > 0, torn.damaged_bytes, torn.problems) == (True, 0, [])
    segment.write_bytes(whole[:60] + b"XXXX" + whole[64:])
    altered = recover(folder, RUN)
    assert altered.torn_bytes == 0
    assert altered.problems == [f"{altered.damaged_bytes} bytes of segment 1 are damaged"]


def test_a_run_recovered_is_the_run_as_it_was_told(folder: Path) -> None:
    clock = Clock()
    recovered = recover(folder, RUN).collector
    assert recovered is not None
    recovered.clock = clock
    assert look(recovered).steps == look(plain(1, {0: BATCHES * STEPS}, clock)).steps

"""What a journal still holds of a run's steps."""

from pathlib import Path

import pytest

from tests.builders import STARTED_AT, make_identity, timed_records
from tests.sidecar.told import Store, Teller, steps
from traceml.report.rows import StepRow
from traceml.sidecar.journal import path_of
from traceml.sidecar.retained import Retained, retained_rows
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import encode
from traceml.wire.tags import Tag


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A journal of three segments: two ranks told ten steps in each."""
    store = Store(tmp_path / "journal")
    store.open()
    tellers = [Teller(rank, 2) for rank in range(2)]
    for teller in tellers:
        store.tell(teller.hello())
    for number in range(3):
        if number:
            store.checkpoint()
        for teller in tellers:
            teller.make(steps(10 * number, 10, teller.rank))
            teller.deliver(store)
    return store


def rows(store: Store, last: int | None = None, into: Retained | None = None) -> list[StepRow]:
    return list(retained_rows(store.folder, into or Retained(), last))


def told(found: list[StepRow]) -> list[tuple[int, int]]:
    return [(row.step, row.rank) for row in found]


def test_every_completed_step_is_there_rank_by_rank(store: Store) -> None:
    found = rows(store)
    assert told(found) == [(step, rank) for step in range(30) for rank in range(2)]
    assert {row.attempt for row in found} == {0}
    assert found[1].values["forward_ns"] == 11e6
    assert "allocated_bytes" not in found[0].values


def test_a_step_that_one_rank_has_not_told_is_left_out(store: Store) -> None:
    alone = Teller(0, 2, sequence=3, made=30)
    alone.make(steps(30, 5, 0))
    alone.deliver(store)
    assert told(rows(store))[-1] == (29, 1)


@pytest.mark.parametrize("last", [1, 7, 10, 25, 30, 99])
def test_the_last_steps_alone(store: Store, last: int) -> None:
    first = max(30 - last, 0)
    assert told(rows(store, last)) == [(s, rank) for s in range(first, 30) for rank in range(2)]


def test_ranks_that_said_hello_in_a_segment_that_is_gone_are_known_from_the_checkpoint(
    store: Store,
) -> None:
    path_of(store.folder, 1, "segment").unlink()
    assert told(rows(store)) == [(step, rank) for step in range(10, 30) for rank in range(2)]


def test_batches_of_processes_that_nobody_knows_are_counted(store: Store) -> None:
    path_of(store.folder, 1, "segment").unlink()
    for file in store.folder.glob("*.checkpoint"):
        file.unlink()
    retained = Retained()
    assert rows(store, into=retained) == []
    assert retained.unknown == 4


def test_what_is_damaged_is_said_and_the_rest_is_there(store: Store) -> None:
    segment = path_of(store.folder, 2, "segment")
    data = segment.read_bytes()
    segment.write_bytes(data[: len(data) // 2] + b"XXXX" + data[len(data) // 2 + 4 :])
    retained = Retained()
    found = told(rows(store, into=retained))
    assert (0, 0) in found
    assert (29, 1) in found
    assert len(retained.problems) == 1


def test_a_batch_that_was_told_twice_is_there_once(store: Store) -> None:
    again = Teller(0, 2, sequence=2, made=20)
    again.make(steps(20, 10, 0))
    store.tell(again.push(again.unacknowledged[0]))
    assert len(rows(store)) == 60


def test_steps_that_start_over_belong_to_the_next_attempt(store: Store) -> None:
    for rank in range(2):
        hello = pb.HelloRequest(session=f"new {rank}", identity=make_identity(rank, 2, attempt=1))
        store.tell(pb.Entry(at=STARTED_AT, hello=hello))
    for rank in range(2):
        records = timed_records(range(3), tags=Tag.WARMUP)
        push = pb.PushRequest(session=f"new {rank}", batch=encode(records, 1))
        store.tell(pb.Entry(at=STARTED_AT, push=push))
    found = rows(store)[60:]
    assert [(row.attempt, row.step, row.tags) for row in found[::2]] == [
        (1, 0, ("warmup",)), (1, 1, ("warmup",)), (1, 2, ("warmup",)),
    ]  # fmt: skip


def test_a_folder_without_a_journal_holds_no_step(tmp_path: Path) -> None:
    assert list(retained_rows(tmp_path, Retained())) == []

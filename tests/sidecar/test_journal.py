"""The journal as files: what is written, what is dropped, and what when the disk says no."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import STARTED_AT, Clock, golden_collector, look
from tests.descriptors import descriptors_left
from traceml.sidecar import journal as journals
from traceml.sidecar.checkpoint import capture, pack
from traceml.sidecar.collector import Collector
from traceml.sidecar.journal import Journal, is_written, numbers, path_of
from traceml.sidecar.recovery import Recovered, recover
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import framed

LIMIT = 8 * 2**20


def checkpoint_of(collector: Collector) -> bytes:
    return pack(capture({"at": STARTED_AT, "collector": collector.save()}))


@pytest.fixture
def collector() -> Collector:
    return golden_collector(Clock())


@pytest.fixture
def journal(tmp_path: Path, collector: Collector) -> Journal:
    journal = Journal(tmp_path / "journal", LIMIT, collector.run)
    assert journal.begin(checkpoint_of(collector))
    return journal


def entry(at: float) -> bytes:
    return pb.Entry(at=at, started=pb.Started(restarts=int(at))).SerializeToString()


def restarts(recovered: Recovered) -> int:
    assert recovered.collector is not None
    return look(recovered.collector).telemetry.sidecar_restarts


def test_what_was_appended_is_read_again(journal: Journal) -> None:
    assert journal.append([entry(5), entry(7)])
    assert journal.append([entry(9)])
    recovered = recover(journal.folder, None)
    assert (recovered.entries, recovered.until) == (3, STARTED_AT)
    assert restarts(recovered) == 9


def test_a_checkpoint_alone_is_the_run(journal: Journal, collector: Collector) -> None:
    recovered = recover(journal.folder, None).collector
    assert recovered is not None
    recovered.clock = collector.clock
    assert look(recovered) == look(collector)


def test_without_a_checkpoint_the_run_is_what_its_segments_say(
    journal: Journal, collector: Collector
) -> None:
    journal.append([entry(5)])
    path_of(journal.folder, 1, "checkpoint").write_bytes(b"damaged")
    recovered = recover(journal.folder, None)
    assert restarts(recovered) == 5
    assert recovered.collector is not None
    assert recovered.collector.run == collector.run
    assert recovered.problems == ["checkpoint 1 is damaged"]


def test_without_checkpoints_and_segments_the_run_is_what_the_caller_says(
    tmp_path: Path, collector: Collector
) -> None:
    assert recover(tmp_path, None).collector is None
    recovered = recover(tmp_path, collector.run).collector
    assert recovered is not None
    assert recovered.run == collector.run


def test_a_segment_is_full_when_it_has_its_share_of_the_limit(journal: Journal) -> None:
    payload = os.urandom(100_000)
    appended = 0
    while not journal.wants_checkpoint:
        assert journal.append([payload])
        appended += len(payload)
    assert LIMIT // 8 <= appended < LIMIT // 8 + 100_000


def test_the_folder_stays_within_its_limit_and_keeps_the_newest(
    journal: Journal, collector: Collector
) -> None:
    payload = os.urandom(100_000)
    largest = 0
    for _ in range(400):
        assert journal.append([payload])
        if journal.wants_checkpoint:
            assert journal.begin(checkpoint_of(collector))
        largest = max(largest, sum(file.stat().st_size for file in journal.folder.iterdir()))
    assert LIMIT * 0.6 < largest <= LIMIT
    segments = numbers(journal.folder, "segment")
    assert segments == list(range(segments[0], segments[-1] + 1))
    assert segments[0] > 1
    assert numbers(journal.folder, "checkpoint") == segments[-2:]


def test_a_damaged_checkpoint_gives_way_to_the_one_before_and_nothing_is_missing(
    journal: Journal, collector: Collector
) -> None:
    journal.append([entry(5)])
    recovered = recover(journal.folder, None).collector
    assert recovered is not None
    journal.begin(checkpoint_of(recovered))
    journal.append([entry(7)])
    newest = path_of(journal.folder, 2, "checkpoint")
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    recovered_again = recover(journal.folder, None)
    assert restarts(recovered_again) == 7
    assert recovered_again.problems == ["checkpoint 2 is damaged"]


@pytest.mark.parametrize("kind", ["checkpoint", "segment"])
def test_files_of_another_format_are_left_alone_and_named(
    journal: Journal, collector: Collector, kind: str
) -> None:
    journal.append([entry(5)])
    file = path_of(journal.folder, 1, kind)
    file.write_bytes(framed([b"traceml journal 0", entry(5)]))
    recovered = recover(journal.folder, collector.run)
    assert restarts(recovered) == (5 if kind == "checkpoint" else 0)
    (problem,) = recovered.problems
    assert f"{kind} 1 is " in problem
    assert file.exists()


def test_a_new_writer_never_appends_to_what_another_wrote(
    journal: Journal, collector: Collector
) -> None:
    journal.append([entry(5)])
    os.close(journal._lock or -1)
    following = Journal(journal.folder, LIMIT, collector.run)
    following.begin(checkpoint_of(collector))
    assert numbers(journal.folder, "segment") == [1, 2]


def test_a_journal_has_one_writer(journal: Journal, collector: Collector) -> None:
    assert is_written(journal.folder)
    with pytest.raises(OSError, match="another sidecar serves the run in"):
        Journal(journal.folder, LIMIT, collector.run)
    os.close(journal._lock or -1)
    assert not is_written(journal.folder)


def test_a_full_disk_leaves_no_torn_entry_and_a_checkpoint_heals_the_gap(
    journal: Journal, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([entry(5)])
    before = path_of(journal.folder, 1, "segment").stat().st_size
    room = [10]

    def half_full(file: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, data[: room[0]])
        room[0] -= written
        return written

    write = os.write
    monkeypatch.setattr(os, "write", half_full)
    assert not journal.append([entry(6)])
    assert journal.problem == "No space left on device"
    assert path_of(journal.folder, 1, "segment").stat().st_size == before
    monkeypatch.undo()
    assert not journal.append([entry(7)])  # there is a gap before it
    assert journal.wants_checkpoint
    assert journal.begin(checkpoint_of(collector))
    assert journal.problem == ""
    assert journal.append([entry(8)])
    assert recover(journal.folder, None).entries == 1


def test_a_checkpoint_that_cannot_be_written_leaves_the_segment_open(
    journal: Journal, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(journals, "write_in", refuse)
    assert not journal.begin(checkpoint_of(collector))
    assert journal.problem == "Read-only file system"
    assert journal.append([entry(5)])
    assert recover(journal.folder, None).entries == 1
    assert numbers(journal.folder, "segment") == [1]
    monkeypatch.undo()
    assert journal.begin(checkpoint_of(collector))
    assert journal.append([entry(7)])
    assert recover(journal.folder, None).entries == 1
    assert journal.problem == ""


def test_no_checkpoint_is_written_that_would_hide_what_is_still_appended(
    journal: Journal, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Any, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        if str(path).endswith(".segment"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, flags, mode, dir_fd=dir_fd)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)
    assert not journal.begin(checkpoint_of(collector))
    monkeypatch.undo()
    assert journal.append([entry(5)])
    assert numbers(journal.folder, "checkpoint") == [1]
    assert recover(journal.folder, None).entries == 1


def test_when_the_limit_is_reached_nothing_more_is_written(journal: Journal) -> None:
    payload = os.urandom(1_000_000)
    while journal.append([payload]):
        continue
    assert journal.problem == "the journal's limit is reached"
    assert sum(file.stat().st_size for file in journal.folder.iterdir()) <= LIMIT


def test_a_folder_that_somebody_removed_is_made_again(
    journal: Journal, collector: Collector
) -> None:
    for file in journal.folder.iterdir():
        file.unlink()
    journal.folder.rmdir()
    assert journal.append([entry(5)])  # into a file without a name
    assert journal.begin(checkpoint_of(collector))
    assert recover(journal.folder, None).collector is not None


def test_a_folder_that_takes_no_files_is_a_problem_and_no_error(
    tmp_path: Path, collector: Collector
) -> None:
    (tmp_path / "journal").write_text("in the way")
    journal = Journal(tmp_path / "journal", LIMIT, collector.run)
    assert not journal.begin(checkpoint_of(collector))
    assert journal.problem
    assert not journal.append([entry(5)])


@pytest.mark.parametrize("left", range(6))
def test_a_checkpoint_that_fails_for_want_of_descriptors_is_tried_again(
    left: int, tmp_path: Path, collector: Collector
) -> None:
    journal = Journal(tmp_path / "journal", LIMIT, collector.run)
    with descriptors_left(left):
        assert journal.begin(checkpoint_of(collector)) or journal.wants_checkpoint
    assert not journal.wants_checkpoint or journal.begin(checkpoint_of(collector))
    assert journal.problem == ""
    assert journal.append([entry(5)])
    for number in numbers(journal.folder, "checkpoint"):
        path_of(journal.folder, number, "checkpoint").unlink()
    assert restarts(recover(journal.folder, None)) == 5

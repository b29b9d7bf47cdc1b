"""The sender against a real sidecar's ingest, on a real socket."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.builders import make_identity
from tests.launching import eventually
from tests.rank.stream import Training
from tests.rank.tape import Tape
from tests.serving import serving
from traceml.rank import sender as senders
from traceml.rank import turns
from traceml.rank.channel import open_channel
from traceml.rank.events import MEMORY, NOBODY, SCOPE, Recorder
from traceml.rank.readings import Reading
from traceml.rank.sender import Sender
from traceml.sidecar.collector import Collector
from traceml.sidecar.config import RunIdentity
from traceml.wire import service
from traceml.wire.columns import VALUES, decode
from traceml.wire.left import left

NOBODY_S = "unix:///nobody.sock"
FOREVER = 3600.0  # whoever waits for that exceeds the time of a test


def new_collector() -> Collector:
    return Collector(RunIdentity("test", "0", (), 0.0, 1))


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    return f"unix://{tmp_path}/s.sock"


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(senders, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(turns, "SHORTEST_SECONDS", 0.02)
    monkeypatch.setattr(senders, "BACKOFF_SECONDS", (0.02, 0.1))
    recorder = Recorder()
    recorder.note(SCOPE)
    return recorder


@pytest.fixture
def start(endpoint: str, recorder: Recorder) -> Iterator[Callable[[], Sender]]:
    started: list[Sender] = []

    def start() -> Sender:
        sender = Sender(recorder, open_channel(endpoint), make_identity(0, 1))
        sender.start()
        started.append(sender)
        return sender

    yield start
    for sender in started:
        sender.close()
        assert not sender.is_alive()


def train(recorder: Recorder, steps: int) -> None:
    for _ in range(steps):
        recorder.finish()


def completed(collector: Collector) -> int:
    # Not by a Snapshot: here, unlike in a sidecar, another thread may be adding steps.
    return collector._book._completed


def test_records_wait_for_a_sidecar_that_comes_late(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    sender = start()
    train(recorder, 5_000)
    eventually(lambda: sender._failures > 1)
    collector = new_collector()
    with serving(collector, endpoint):
        eventually(lambda: completed(collector) == 5_000)


def test_what_was_not_acknowledged_is_sent_again_to_the_next_sidecar(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    sender = start()
    first, second = new_collector(), new_collector()
    with serving(first, endpoint):
        train(recorder, 10)
        eventually(lambda: completed(first) == 10)
    train(recorder, 7)
    eventually(lambda: sender._failures > 0)
    with serving(second, endpoint):
        eventually(lambda: completed(second) == 7)
        sender.close()
    (rank,) = second.snapshot().ranks
    assert (rank.parted, rank.records_received) == (True, 7)
    # What the first one took with it when it went is known, and not passed over.
    assert rank.records_dropped["unjournaled"] == 10


def test_a_backlog_that_is_full_drops_the_oldest_and_says_so(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "BATCH_RECORDS", 10)
    monkeypatch.setattr(senders, "BACKLOG_RECORDS", 50)
    train(recorder, 200)
    sender = start()
    eventually(lambda: sender._dropped_backlog == 150)
    collector = new_collector()
    with serving(collector, endpoint):
        eventually(lambda: completed(collector) == 50)
    (rank,) = collector.snapshot().ranks
    assert rank.step == 200
    assert rank.records_dropped["backlog"] == 150


def test_a_rank_that_is_too_new_falls_silent(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "PROTOCOL", 99)
    collector = new_collector()
    with serving(collector, endpoint):
        sender = start()
        eventually(lambda: not sender.is_alive())
    assert recorder.thread == NOBODY
    assert "protocol 99, this sidecar at most 1" in collector.snapshot().notes[0]


def test_during_a_fork_nothing_is_sent_or_received(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    collector = new_collector()
    with serving(collector, endpoint):
        sender = start()
        eventually(lambda: sender._greeted)
        sender.hold()
        train(recorder, 3)
        eventually(lambda: sender._backlog or None)
        assert completed(collector) == 0
        sender.release()
        eventually(lambda: completed(collector) == 3)


def test_a_training_that_forks_all_the_time_is_heard(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    collector = new_collector()
    with serving(collector, endpoint):
        sender = start()
        deadline = monotonic() + 60.0
        while completed(collector) < 500 and monotonic() < deadline:
            sender.hold()
            train(recorder, 1)
            sender.release()
            sleep(0.0005)  # less than a call takes
        assert completed(collector) >= 500


@pytest.mark.parametrize(
    "said",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x04\0\0\0\0\0" + b"\0\x10\0\x01half"],
)
def test_steps_are_kept_while_something_else_listens_there(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    said: bytes,
) -> None:
    monkeypatch.setattr(senders, "CALL_SECONDS", 0.1)
    collector, path = new_collector(), Path(endpoint.removeprefix("unix://"))
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as connections:
        listener.bind(str(path))
        listener.listen()
        sender = start()
        for _ in range(3):
            connections.enter_context(listener.accept()[0]).sendall(said)
            train(recorder, 10)
        eventually(lambda: sender._failures >= 3 and sender._backlog_records == 30)
    path.unlink()
    monkeypatch.setattr(senders, "CALL_SECONDS", 5.0)
    with serving(collector, endpoint):
        eventually(lambda: completed(collector) == 30)
    assert recorder.faults == 0


def test_a_fault_in_the_sender_is_counted_and_not_printed(
    start: Callable[[], Sender],
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(senders, "encode", explode)
    sender = start()
    train(recorder, 1)
    eventually(lambda: not sender.is_alive())
    assert recorder.faults == 1
    assert "ours" not in capfd.readouterr().err


def asked(sender: Sender, flat: bool = True) -> dict[str, Any]:
    answer = sender.ask(flat, seconds=30.0)
    assert answer is not None
    found: dict[str, Any] = json.loads(answer)
    return found


def test_an_answer_knows_of_every_step_before_the_question(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "TICK_SECONDS", 1e9)  # nobody looks unless asked to
    monkeypatch.setattr(turns, "LONGEST_SECONDS", 1e9)
    monkeypatch.setattr(turns, "SHORTEST_SECONDS", 1e9)
    with serving(new_collector(), endpoint):
        sender = start()
        for steps in (3, 10, 25):
            train(recorder, steps - int(recorder.scopes))
            assert asked(sender)["traceml/steps_completed"] == steps
        assert asked(sender, flat=False)["step_time"]["steps"]["completed"] == 25


def test_nobody_answers_and_the_training_waits_once(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    sender = start()
    assert sender.ask(True, seconds=0.05) is None
    assert sender.ask(True, seconds=FOREVER) is None
    with serving(new_collector(), endpoint):
        eventually(lambda: sender.ask(True, seconds=30.0))


def test_a_question_is_put_again_to_a_sidecar_that_does_not_know_the_rank(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    sender = start()
    with serving(new_collector(), endpoint):
        train(recorder, 4)
        assert asked(sender)["traceml/steps_completed"] == 4
    with serving(new_collector(), endpoint):
        train(recorder, 2)
        eventually(lambda: sender.ask(True, seconds=30.0))
        assert asked(sender)["traceml/steps_completed"] == 2


def test_a_sidecar_that_knows_no_reports_is_not_waited_for(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(service.METHODS, "Report")
    collector = new_collector()
    with serving(collector, endpoint):
        monkeypatch.undo()
        monkeypatch.setattr(senders, "TICK_SECONDS", 0.02)
        monkeypatch.setattr(turns, "SHORTEST_SECONDS", 0.02)
        sender = start()
        assert sender.ask(True, seconds=FOREVER) is None
        train(recorder, 3)
        eventually(lambda: completed(collector) == 3)


def test_a_question_and_a_fork_do_not_meet(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    with serving(new_collector(), endpoint), ThreadPoolExecutor() as others:
        sender = start()
        eventually(lambda: sender._greeted)
        sender.hold()
        answer = others.submit(sender.ask, True, 30.0)
        eventually(lambda: sender._question is not None)
        assert not answer.done()
        sender.release()
        assert answer.result()


def test_a_sender_that_has_parted_answers_nothing(
    start: Callable[[], Sender], endpoint: str
) -> None:
    with serving(new_collector(), endpoint):
        sender = start()
        eventually(lambda: sender._greeted)
        sender.close()
        assert sender.ask(True, seconds=FOREVER) is None


def test_the_last_step_of_a_loop_without_scopes_is_sent_with_the_farewell(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    recorder.clear()
    collector = new_collector()
    with serving(collector, endpoint):
        sender = start()
        for entry in Tape().step().step().step().entries:
            recorder.append(entry)
        eventually(lambda: completed(collector) == 2)
        sender.close()
        assert completed(collector) == 3


@pytest.mark.parametrize("moment", ["_clocks.feed", "_look_for_question"])
def test_a_training_that_ends_while_its_sender_is_at_work_loses_no_step(
    recorder: Recorder, endpoint: str, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Between two lines of the sender's: after it took entries, or before it makes a call."""
    sender = Sender(recorder, open_channel(endpoint), make_identity(0, 1))
    place, method = attrgetter(moment)(sender), moment.split(".")[-1]
    steps = Tape().step().step().step().entries
    last = len(steps) * 2 // 3

    def end() -> None:
        for entry in steps[last:]:
            recorder.append(entry)
        closing.submit(sender.close)
        eventually(lambda: sender._deadline is not None)

    def interrupted(*arguments: Any) -> Any:
        result = place(*arguments)
        is_idle = sender._method is None and not sender._backlog
        if sender._greeted and is_idle and sender._deadline is None:
            end()
        return result

    recorder.clear()
    for entry in steps[:last]:
        recorder.append(entry)
    collector = new_collector()
    monkeypatch.setattr(place.__self__, method, interrupted)
    with ThreadPoolExecutor(1) as closing, serving(collector, endpoint):
        sender.start()
        eventually(lambda: not sender.is_alive())
    assert completed(collector) == 3


def test_what_a_rank_cannot_measure_is_told_with_its_heartbeats(
    start: Callable[[], Sender], recorder: Recorder, endpoint: str
) -> None:
    recorder.notes["The moon is not measured."] = None
    collector = new_collector()
    with serving(collector, endpoint):
        start()
        eventually(lambda: "The moon is not measured." in collector.snapshot().notes)


def test_a_rank_that_never_got_an_answer_leaves_its_steps_where_a_sidecar_was_killed(
    recorder: Recorder, tmp_path: Path, endpoint: str
) -> None:
    for is_there in (False, True):
        if is_there:  # what a sidecar leaves that is killed before it can answer
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(tmp_path / "s.sock"))
        train(recorder, 5)
        sender = Sender(recorder, open_channel(endpoint), make_identity(0, 1), endpoint)
        sender.start()
        sender.close()
        told = [entry.WhichOneof("what") for _, entries in left(endpoint, 0.0) for entry in entries]
        assert told == (["hello", "push", "goodbye"] if is_there else [])
        recorder.note(SCOPE)  # the next sender begins anew


def test_a_record_holds_the_devices_times_and_peaks_beside_the_cpus() -> None:
    training = Training()
    training.recorder.append((MEMORY, Reading(2, 3, 1, 1, 4, 0), training.recorder.thread))
    for _ in range(4):
        training.step()
        training.stream.catch_up()
    sender = Sender(training.recorder, open_channel(NOBODY_S), make_identity(0, 1))
    sender._collect()
    last = decode(sender._backlog[0]).values[-1]
    told = dict(zip(VALUES, last.tolist(), strict=True))
    assert (told["device_backward_ns"], told["device_step_ns"]) == (20e6, 35e6)
    assert 0 < told["step_ns"] < told["device_step_ns"]
    assert (told["allocated_bytes"], told["reserved_bytes"]) == (2, 3)
    assert sender._heartbeat().allocation_retries == 4


def test_what_is_not_yet_due_is_reported_together(
    start: Callable[[], Sender],
    recorder: Recorder,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "NODE_REPORTS_PER_SECOND", 1e-9)
    monkeypatch.setattr(turns, "LONGEST_SECONDS", 1e9)
    collector = new_collector()
    with serving(collector, endpoint):
        sender = start()
        eventually(lambda: sender._greeted)
        for steps in (3, 10, 25):
            train(recorder, steps - int(recorder.scopes))
            eventually(lambda: not recorder._entries)
        assert completed(collector) == 0
        assert asked(sender)["traceml/steps_completed"] == 25
    assert sender._sequence == 1

"""Journals that are out for memory, time or a traceback: each is refused, and said."""

import json
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.builders import STARTED_AT, Clock, golden_collector, hello_request, make_identity
from tests.sidecar.told import RUN
from tests.strangers import STEPS, make_run
from traceml.files import Folder, limits
from traceml.sidecar import hostbook
from traceml.sidecar.checkpoint import FORMAT, UnreadableError, capture, pack, unpack
from traceml.sidecar.collector import Collector
from traceml.sidecar.journal import FORMAT as JOURNAL_FORMAT
from traceml.sidecar.journal import path_of
from traceml.sidecar.rebuild import rebuild
from traceml.sidecar.recovery import recover
from traceml.sidecar.retained import Retained, retained_rows
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.frames import framed


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose journal is whole."""
    make_run(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def little_memory() -> Any:
    """An allocation of gigabytes fails, instead of being the machine's problem."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def rebuilt(run: Path) -> Snapshot:
    with Folder.at(run) as folder:
        snapshot = rebuild(folder)
    assert snapshot is not None
    return snapshot


def add(run: Path, *entries: pb.Entry) -> None:
    """Append entries to the run's journal."""
    with path_of(run / "journal", 1, "segment").open("ab") as segment:
        segment.write(framed(entry.SerializeToString() for entry in entries))


def hello(**told: Any) -> pb.Entry:
    identity = make_identity(0, 1, attempt=1)
    for name, value in told.items():
        setattr(identity, name, value)
    return pb.Entry(at=STARTED_AT, hello=hello_request("another", identity))


HUGE = 4_000_000_000
NONE_OF_OURS = {
    "a node of many ranks": hello(local_world_size=HUGE),
    "a rank beyond its world": hello(rank=7),
    "a name without end": hello(host="x" * 10_000),
    "a restart too many": hello(attempt=HUGE),
    "a time that is none": pb.Entry(at=float("nan"), ended=pb.Ended(state="completed")),
    "a time beyond all calendars": pb.Entry(at=1e300, ended=pb.Ended(state="completed")),
    "an end that is none": pb.Entry(ended=pb.Ended(state="\x1b[2Jowned")),
    "thresholds without end": pb.Entry(started=pb.Started(policy=" " * 10**6)),
    "a GPU that no machine has": pb.Entry(sampled=pb.Sampled(gpus=[pb.Gpu(index=HUGE)])),
    "more GPUs than there are": pb.Entry(
        sampled=pb.Sampled(gpus=[pb.Gpu(uuid=f"{n}") for n in range(1000)])
    ),
    "a finding that is none": pb.Entry(diagnosed=pb.Diagnosed(state="x", severity="owned")),
    "a process that nobody knows": pb.Entry(push=pb.PushRequest(session="nobody")),
    "nothing": pb.Entry(at=STARTED_AT),
}


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("entry", NONE_OF_OURS.values(), ids=NONE_OF_OURS)
def test_an_entry_that_no_sidecar_took_is_damaged_and_said_and_the_rest_is_read(
    run: Path, entry: pb.Entry
) -> None:
    add(run, entry)
    snapshot = rebuilt(run)
    assert snapshot.steps.completed == STEPS
    assert snapshot.coverage is not None
    assert snapshot.coverage.problems == ("1 entries of segment 1 are none of ours",)
    assert snapshot.coverage.unread_bytes == entry.ByteSize()
    assert len(snapshot.absent) <= 1


def test_an_export_refuses_the_same_entries(run: Path) -> None:
    add(run, NONE_OF_OURS["a node of many ranks"])
    retained = Retained()
    assert len(list(retained_rows(run / "journal", retained))) == STEPS
    assert retained.problems == ["1 entries of segment 1 are none of ours"]


def test_a_run_has_no_more_ranks_than_there_is_memory_for(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceml.sidecar.sessions.MAX_KEPT_RANKS", 10)
    ranks = [hello(rank=number, world_size=100, attempt=number) for number in range(1, 20)]
    for number, entry in enumerate(ranks):
        entry.hello.session = f"more {number}"
    add(run, *ranks)
    recovered = recover(run / "journal", None)
    assert recovered.collector is not None
    assert (len(recovered.collector.ranks), recovered.refused) == (10, 10)


@pytest.mark.parametrize(
    "policy",
    ["[" * 30_000, "9" * 10_000, '{"input_warning": 1' + "0" * 400 + "}", "NaN", "[]", '"x"',
     '{"input_warning": NaN}', '{"input_warning": 1e999}', '{"no_such": 1}'],
    ids=range(9),
)  # fmt: skip
def test_thresholds_that_cannot_be_read_are_said_and_the_defaults_hold(
    run: Path, policy: str
) -> None:
    add(run, pb.Entry(at=STARTED_AT, started=pb.Started(policy=policy)))
    snapshot = rebuilt(run)
    assert any("thresholds of this run cannot be read" in note for note in snapshot.notes)


@pytest.mark.parametrize(
    "changed",
    [{"name": 7}, {"name": "x" * 10_000}, {"command": [1]}, {"command": None}, {"more": 1},
     {"started_at": "now"}, {"started_at": 1e300}, {"ranks_expected": -1}],
    ids=str,
)  # fmt: skip
def test_a_head_that_tells_of_no_run_makes_none(tmp_path: Path, changed: dict[str, Any]) -> None:
    head = {"name": "x", "id": "0", "command": ["x"], "started_at": 1.0, "ranks_expected": None}
    (tmp_path / "00000001.segment").write_bytes(
        framed([JOURNAL_FORMAT, json.dumps(head | changed).encode()])
    )
    assert recover(tmp_path, None).collector is None
    (tmp_path / "00000001.segment").write_bytes(framed([JOURNAL_FORMAT, b"{" + b"[" * 100_000]))
    assert recover(tmp_path, None).collector is None


def test_reading_a_journal_ends_after_a_while(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPLAY_SECONDS", -1.0)
    recovered = recover(run / "journal", None)
    assert recovered.problems == ["not all of it was read: reading it took more than -1 s"]


def test_a_journal_without_end_is_read_up_to_its_limit(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 6):
        path_of(run / "journal", number, "segment").write_bytes(framed([JOURNAL_FORMAT]))
    monkeypatch.setattr(limits, "JOURNAL_BYTES", 100)
    (problem,) = recover(run / "journal", None).problems
    assert problem.startswith("not all of it was read: what lies before segment 2")


def test_a_journal_with_more_files_than_any_is_said(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NAMES", 10)
    for number in range(20):
        (run / "journal" / f"{number:0200}.segment").touch()
    recovered = recover(run / "journal", None)
    assert recovered.collector is None
    assert recovered.problems == ["its folder is not readable: it holds more than 10 files"]


# Checkpoints.


def refused(state: Any, *arrays: bytes) -> str:
    """What is said of a checkpoint with this state."""
    document = {"format": FORMAT, "arrays": len(arrays), "state": state}
    with pytest.raises(UnreadableError) as caught:
        unpack(framed([json.dumps(document).encode(), *arrays]))
    return str(caught.value)


@pytest.mark.usefixtures("little_memory")
def test_a_small_checkpoint_that_unpacks_to_gigabytes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 2**25)
    deflating = zlib.compressobj(9)
    first, again = (
        deflating.compress(bytes(2**24)) + deflating.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    bomb = first + 299 * again
    assert len(bomb) < 8 * 2**20
    array = {"array": [1, "|u1", [300 * 2**24]]}
    assert "more than there is room for" in refused(array, bomb)


@pytest.mark.usefixtures("little_memory")
def test_an_array_that_is_named_again_and_again_counts_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 2**25)
    array = {"array": [1, "|u1", [2**24]]}
    deflated = zlib.compress(bytes(2**24))
    assert "more than there is room for" in refused({"list": [array] * 300}, deflated)


@pytest.mark.parametrize("dtype", ["|O", "O", "<f8,<f8", "(1000000000,)<f8", "|S1", "<M8[s]", 7])
def test_an_array_is_of_plain_numbers(dtype: Any) -> None:
    assert "ShapeError" in refused({"array": [1, dtype, [1]]}, zlib.compress(bytes(8)))


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_checkpoint_nested_too_deeply_is_refused(depth: int) -> None:
    text = '{"list": [' * depth + "]}" * depth
    document = f'{{"format": {FORMAT}, "arrays": 0, "state": {text}}}'
    with pytest.raises(UnreadableError, match=r"nested too deeply|RecursionError"):
        unpack(framed([document.encode()]))


@pytest.mark.usefixtures("little_memory")
def test_a_document_of_too_many_values_is_refused_before_they_are_made() -> None:
    with pytest.raises(UnreadableError, match="more than 2000000 values"):
        unpack(framed([b"[" + b"[]," * 5_000_000 + b"[]]"]))
    with pytest.raises(UnreadableError, match="too large"):
        unpack(framed([b" " * (limits.DOCUMENT_BYTES + 1)]))


def tree_of(collector: Collector) -> dict[str, Any]:
    """Its state, captured, to be changed."""
    captured: dict[str, Any] = capture({"at": STARTED_AT, "collector": collector.save()})
    return captured


def places(value: Any, name: str, found: list[list[Any]]) -> list[list[Any]]:
    """Every pair in a captured state that gives this attribute."""
    if isinstance(value, list):
        if len(value) == 2 and value[0] == name:
            found.append(value)
        for item in value:
            places(item, name, found)
    elif isinstance(value, dict):
        for item in value.values():
            places(item, name, found)
    return found


ATTRIBUTES: dict[str, list[Any]] = {
    "_expected": [HUGE, 0, -1, True, "2", None, 2.0],
    "expected": [HUGE, -5],
    "_capacity": [10**12, 0],
    "_floor": [10**18, -7],
    "_reached": [0],
    "_stride": [0, -1, 10**30],
    "_steps": [10**18, -1, 1e308],
    "_length": [10**12, 0],
    "_columns": [{"dict": [[0, 10**12]]}, {"dict": [[n, n] for n in range(5000)]}],
    "_ranks": [{"tuple": [0, 1, 2, 3]}, None],
    "_state": ["owned", 7],
    "_ended_at": [1e300, "now"],
    "_policy": [{"dict": [["no_such", 1.0]]}, {"dict": [["input_warning", {"list": []}]]}],
    "_notes": [None],
    "_said": [{"dict": [["x" * 10**6, None]]}],
    "_lost": [{"dict": []}],
    "_recent": [{"list": [None]}],
    "at": [float("nan"), 1e300, "now"],
    "started_at": [float("inf"), None],
}
EACH = [(name, value) for name, values in ATTRIBUTES.items() for value in values]


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("name", "value"), EACH, ids=[f"{n}={v!s:.20}" for n, v in EACH])
def test_a_state_that_no_collector_has_is_no_checkpoint(run: Path, name: str, value: Any) -> None:
    tree = tree_of(golden_collector(Clock()))
    found = places(tree, name, [])
    assert found
    for place in found:
        place[1] = value
    path_of(run / "journal", 1, "checkpoint").write_bytes(pack(tree))
    snapshot = rebuilt(run)
    assert snapshot.coverage is not None
    assert snapshot.coverage.problems[0].startswith("checkpoint 1 is ")
    assert len(snapshot.coverage.problems[0]) < 200
    assert snapshot.steps.completed == STEPS  # of the segment


def test_an_identity_in_a_checkpoint_is_one_that_could_have_said_hello(run: Path) -> None:
    collector = golden_collector(Clock())
    collector.ranks[0].identity.local_world_size = HUGE
    path_of(run / "journal", 1, "checkpoint").write_bytes(pack(tree_of(collector)))
    recovered = recover(run / "journal", None)
    (problem,) = recovered.problems
    assert problem.startswith(f"checkpoint 1 is Identity.local_world_size is {HUGE}")


def test_reasons_and_notes_do_not_pile_up() -> None:
    collector = Collector(RUN)
    for number in range(100):
        gpu = pb.Gpu(uuid="0", throttled=[f"reason {number}"])
        collector.apply(pb.Entry(sampled=pb.Sampled(gpus=[gpu])))
        collector.note(f"{number}" * 10_000)
    (gpu_use,) = collector.snapshot().host_whole.gpus
    assert len(gpu_use.throttled) == hostbook.MAX_REASONS
    assert max(map(len, collector.snapshot().notes)) < 5000

"""What is said of waiting: where it was, and what can't be said where it is not measured."""

from typing import Any

import pytest

from tests.builders import Clock, look, make_collector, start_ranks, timed_records
from tests.diagnosis.scene import step_time
from traceml.diagnosis.finding import Finding
from traceml.snapshot import Snapshot
from traceml.wire.columns import VALUES, Records


def run_of(*ranks: Records) -> Snapshot:
    collector = make_collector(Clock(), ranks_expected=len(ranks))
    for process, records in zip(start_ranks(collector, len(ranks)), ranks, strict=True):
        process.send(records)
    return look(collector)


def exchanging(**waits_ms: float) -> Records:
    records = timed_records(range(40), collective_wait=20.0)
    for place, milliseconds in waits_ms.items():
        records.values[:, VALUES.index(f"{place}_wait_ns")] = milliseconds * 1e6
    return records


def unseen(**phases_ms: Any) -> Records:
    return timed_records(range(40), collective_wait=None, **phases_ms)


def only(snapshot: Snapshot, state: str) -> Finding:
    (found,) = (each for each in step_time(snapshot).findings if each.state == state)
    return found


@pytest.mark.parametrize(
    ("waits_ms", "words"),
    [
        ({"forward": 12.0, "other": 1.0}, "waits most in forward (12.0 ms of 20.0 ms)."),
        ({"forward": 2.0}, "waits most in backward (18.0 ms of 20.0 ms)."),
        ({}, "waits most in backward (20.0 ms of 20.0 ms)."),
    ],
)
def test_a_slow_exchange_says_where_ranks_wait(waits_ms: dict[str, float], words: str) -> None:
    found = only(run_of(*[exchanging(**waits_ms)] * 2), "COMM_BOUND")
    assert found.phase == "collective_wait"
    assert found.summary.endswith(words)


def test_the_places_are_evidence() -> None:
    found = only(run_of(*[exchanging(forward=12.0, optimizer=3.0)] * 2), "COMM_BOUND")
    assert found.evidence is not None
    places = {k: v for k, v in found.evidence.items() if k.endswith("_wait_seconds")}
    assert places == pytest.approx(
        {
            "forward_wait_seconds": 0.012,
            "backward_wait_seconds": 0.005,
            "optimizer_wait_seconds": 0.003,
        }
    )


def test_where_waits_are_not_seen_the_exchange_is_not_judged() -> None:
    snapshot = run_of(unseen(), unseen(forward=40.0))
    assert "COMM_BOUND" not in step_time(snapshot).scores
    assert all(times.own_seconds is None for times in snapshot.window.ranks.values())


def test_where_one_ranks_waits_are_not_seen_the_exchange_is_not_judged_either() -> None:
    assert "COMM_BOUND" not in step_time(run_of(exchanging(), unseen())).scores


def test_compute_is_then_told_with_the_collectives_inside_it() -> None:
    told = step_time(run_of(*[unseen(backward=200.0)] * 2)).primary
    assert (told.state, told.confidence) == ("COMPUTE_BOUND", "medium")
    assert told.summary.startswith("Compute and the collectives inside it are ")
    assert "own work" not in told.summary + told.action


def test_a_rank_alone_has_its_own_work_without_any_waits() -> None:
    told = step_time(run_of(unseen(backward=200.0))).primary
    assert (told.state, told.confidence) == ("COMPUTE_BOUND", "high")
    assert told.summary.startswith("The model's own work is ")


def test_a_straggler_is_then_named_by_its_arrival_and_with_less_confidence() -> None:
    told = step_time(run_of(unseen(), unseen(forward=40.0))).primary
    assert (told.state, told.rank, told.phase) == ("COMPUTE_STRAGGLER", 1, "forward")
    assert (told.confidence, told.chronic) == ("medium", None)
    assert "forward (compute and the collectives inside it), and it ends that later" in told.summary
    assert "wait for it" not in told.summary


def test_slow_input_is_no_compute_even_then() -> None:
    told = step_time(run_of(unseen(), unseen(dataloader=40.0))).primary
    assert (told.state, told.rank, told.confidence) == ("INPUT_STRAGGLER", 1, "medium")
    assert "most of it in dataloader, and it ends that later than they do" in told.summary


def test_a_straggler_whose_waits_are_seen_is_as_sure_as_before() -> None:
    fast, slow = (
        timed_records(range(40), collective_wait=34.0),
        timed_records(range(40), forward=40.0),
    )
    told = step_time(run_of(fast, slow)).primary
    assert (told.confidence, told.chronic) == ("high", True)
    assert "and they wait for it" in told.summary

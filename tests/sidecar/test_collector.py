import json
from pathlib import Path

import pytest

from tests.builders import (
    STARTED_AT,
    Clock,
    Process,
    end,
    hello_request,
    host_sample,
    look,
    make_collector,
    make_identity,
    make_records,
    malformed_batch,
    start_ranks,
    tell,
    timed_records,
)
from tests.sidecar.told import Store, Teller
from traceml.sidecar.collector import Collector
from traceml.sidecar.notes import MAX_NOTES
from traceml.sidecar.refusal import (
    INTERNAL,
    MalformedError,
    ProtocolTooNewError,
    UnknownSessionError,
)
from traceml.snapshot import RankState, Snapshot
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PROTOCOL, encode
from traceml.wire.tags import Tag

PATIENT = json.dumps({"straggler_warning": 0.9, "straggler_critical": 0.95})


def test_the_run_is_what_its_launcher_said(clock: Clock) -> None:
    clock.advance(3.0)
    snapshot = look(make_collector(clock, "night", ranks_expected=4))
    assert (snapshot.run.name, snapshot.run.state) == ("night", "running")
    assert (snapshot.run.started_at, snapshot.run.duration_seconds) == (STARTED_AT, 3.0)
    assert (snapshot.ranks_expected, snapshot.ranks_reporting) == (4, 0)


def test_what_only_ranks_know_is_absent(collector: Collector) -> None:
    snapshot = look(collector)
    assert (snapshot.run.world_size, snapshot.run.nnodes) == (None, None)
    assert snapshot.steps.last_completed_at is None
    assert snapshot.telemetry.overhead_seconds_per_step is None


def test_every_known_reason_stands_at_zero(collector: Collector) -> None:
    steps = look(collector).steps
    assert steps.incomplete == {"missing": 0, "overflow": 0, "restart": 0}
    assert steps.excluded == {"warmup": 0, "compile": 0, "checkpoint": 0, "eval": 0, "user": 0}


def test_hello_introduces_a_rank(collector: Collector) -> None:
    start_ranks(collector, 2)
    snapshot = look(collector)
    assert [rank.rank for rank in snapshot.ranks] == [0, 1]
    assert (snapshot.run.world_size, snapshot.run.nnodes) == (2, 1)
    assert (snapshot.run.strategy, snapshot.run.torch) == ("ddp", "2.13.0")
    assert (snapshot.ranks_expected, snapshot.ranks_reporting) == (2, 2)


def test_ranks_are_shown_in_order_whoever_came_first(collector: Collector) -> None:
    for rank in (2, 0, 1):
        Process(collector, make_identity(rank, 3), f"s{rank}").hello()
    assert [rank.rank for rank in look(collector).ranks] == [0, 1, 2]


def test_the_number_of_nodes_is_the_world_over_the_node(collector: Collector) -> None:
    identity = make_identity(0, 2)
    identity.world_size = 8
    Process(collector, identity, "s").hello()
    assert look(collector).run.nnodes == 4
    assert look(collector).ranks_expected == 2


def test_a_hello_said_twice_is_one_session(collector: Collector) -> None:
    process = Process(collector, make_identity(0, 1), "s").hello()
    process.send(timed_records(range(3)))
    process.hello()
    process.send(timed_records(range(3, 5)))
    assert look(collector).steps.completed == 5
    assert look(collector).steps.incomplete["restart"] == 0


def test_a_newer_protocol_is_refused_and_noted(collector: Collector) -> None:
    request = hello_request("s", make_identity(3, 4), protocol=PROTOCOL + 1)
    with pytest.raises(ProtocolTooNewError, match=r"rank 3 .* update the sidecar"):
        tell(collector, hello=request)
    assert "rank 3" in look(collector).notes[0]
    assert not look(collector).ranks


def test_an_unknown_session_is_asked_for_a_hello(collector: Collector) -> None:
    with pytest.raises(UnknownSessionError):
        Process(collector, make_identity(0, 1), "s").beat()


def test_goodbye_takes_a_rank_out_of_those_reporting(collector: Collector) -> None:
    left, stayed = start_ranks(collector, 2)
    left.goodbye()
    snapshot = look(collector)
    assert [(rank.parted, rank.reporting) for rank in snapshot.ranks] == [
        (True, False),
        (False, True),
    ]
    assert not collector.have_all_parted()
    stayed.goodbye()
    assert collector.have_all_parted()


def test_a_run_without_ranks_has_not_parted_from_them(collector: Collector) -> None:
    assert not collector.have_all_parted()


def test_a_step_is_completed_once_all_ranks_have_told_it(
    collector: Collector, clock: Clock
) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(5)))
    assert look(collector).steps.completed == 0
    clock.advance(2.0)
    second.send(timed_records(range(3)))
    assert look(collector).steps.completed == 3
    assert look(collector).steps.last_completed_at == STARTED_AT + 2.0
    assert look(collector).window.steps == look(collector).whole.steps == 3


def test_a_batch_that_comes_again_is_acknowledged_and_not_counted(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    batch = encode(timed_records(range(4)), 1)
    assert [process.send_batch(batch) for _ in range(3)] == [1, 1, 1]
    assert look(collector).ranks[0].records_received == 4
    assert look(collector).steps.completed == 4
    assert look(collector).telemetry.records_dropped == {}


def test_an_older_batch_is_answered_with_the_highest_held(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.send_batch(encode(timed_records([1]), 8))
    assert process.send_batch(encode(timed_records([0]), 7)) == 8
    assert look(collector).ranks[0].records_received == 1


def test_tagged_steps_are_completed_and_left_out_of_the_statistics(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.send(timed_records(range(2), tags=Tag.WARMUP, forward=900.0))
    process.send(timed_records(range(2, 12)))
    snapshot = look(collector)
    assert snapshot.steps.completed == 12
    assert snapshot.steps.excluded["warmup"] == 2
    assert snapshot.window.steps == snapshot.whole.steps == 10
    assert snapshot.window.ranks[0].phases["forward"] == pytest.approx(0.010)


def test_a_step_that_one_rank_tagged_is_left_out_for_all(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records([0], tags=Tag.CHECKPOINT))
    second.send(timed_records([0]))
    assert look(collector).steps.excluded["checkpoint"] == 1
    assert look(collector).window.steps == 0


def test_a_lost_record_makes_its_step_incomplete(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(3)))
    second.send(timed_records([0, 2]))
    assert look(collector).steps.incomplete["missing"] == 1


def test_a_malformed_batch_costs_its_records_and_no_more(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    assert process.send_batch(malformed_batch(1)) == 1
    process.sequence = 1
    process.send(timed_records(range(2)))
    assert look(collector).ranks[0].records_dropped["malformed"] == 3
    assert look(collector).steps.completed == 2
    assert "rank 0 sent a batch that is no batch" in look(collector).notes[0]


def test_a_step_far_beyond_what_its_process_counts_does_not_leave_the_others_behind(
    collector: Collector,
) -> None:
    honest, odd = start_ranks(collector, 2)
    for process in (honest, odd):
        process.send(timed_records(range(10)))
    assert odd.send(timed_records([2**32 - 1])) == 2
    for process in (honest, odd):
        process.send(timed_records(range(10, 20)))
    snapshot = look(collector)
    assert snapshot.steps.completed == 20
    assert snapshot.ranks[1].records_dropped["malformed"] == 1
    assert snapshot.notes == ("rank 1 sent a batch that is no batch: it tells of step 4294967295",)


def test_a_rank_whose_sidecar_was_away_for_long_goes_on_at_its_step(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.send_batch(encode(timed_records([0]), 1))
    process.send_batch(encode(timed_records([2_000_000_000]), 2, preceding=2_000_000_000))
    assert look(collector).steps.completed == 2


def test_the_same_fault_is_noted_once(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    for sequence in range(1, 50):
        process.send_batch(malformed_batch(sequence))
    assert len(look(collector).notes) == 1


def test_a_batch_without_records_is_acknowledged(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    assert process.send(make_records([])) == 1
    assert look(collector).steps.completed == 0


def test_the_run_ends_as_it_is_told(collector: Collector, clock: Clock) -> None:
    clock.advance(7.0)
    end(collector, "failed", 3)
    clock.advance(100.0)
    run = look(collector).run
    assert (run.state, run.exit_code, run.duration_seconds) == ("failed", 3, 7.0)


def test_what_still_waits_at_the_end_is_missing(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(5)))
    second.send(timed_records(range(3)))
    end(collector, "completed", 0)
    assert look(collector).steps.completed == 3
    assert look(collector).steps.incomplete["missing"] == 2


def test_what_a_rank_has_left_still_counts_after_the_end(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(5)))
    second.send(timed_records(range(3)))
    end(collector, "interrupted")
    assert look(collector).steps.incomplete["missing"] == 2
    second.send(timed_records(range(3, 5)))
    assert look(collector).steps.completed == 5
    assert look(collector).steps.incomplete["missing"] == 0


def test_a_sidecar_that_starts_after_the_end_goes_on_with_the_run(
    collector: Collector, clock: Clock
) -> None:
    first, second = start_ranks(collector, 2)
    first.send(timed_records(range(5)))
    end(collector, "interrupted")
    assert collector.is_unfinished
    clock.advance(5.0)
    tell(collector, started=pb.Started())
    second.send(timed_records(range(5)))
    snapshot = look(collector)
    assert (snapshot.run.state, snapshot.run.duration_seconds) == ("running", 5.0)
    assert (snapshot.steps.completed, snapshot.telemetry.sidecar_restarts) == (5, 0)


@pytest.mark.parametrize(("state", "exit_code"), [("completed", 0), ("interrupted", 130)])
def test_a_run_whose_script_has_ended_is_finished(
    collector: Collector, state: str, exit_code: int
) -> None:
    start_ranks(collector, 2)
    end(collector, state, exit_code)
    assert not collector.is_unfinished


def test_a_run_whose_ranks_were_gone_when_its_sidecar_was_told_to_stop_is_finished(
    collector: Collector, clock: Clock
) -> None:
    start_ranks(collector, 2)
    clock.advance(60.0)
    end(collector, "interrupted")
    assert not collector.is_unfinished


def test_what_tracing_took_and_lost_is_summed_over_the_ranks(collector: Collector) -> None:
    first, second = start_ranks(collector, 2)
    first.heartbeat = pb.Heartbeat(dropped_ring=2)
    first.send(timed_records(range(5)))
    second.heartbeat = pb.Heartbeat(dropped_backlog=1)
    second.send(timed_records(range(5)))
    telemetry = look(collector).telemetry
    assert telemetry.records_received == 10
    assert telemetry.records_dropped == {"overwritten": 2, "backlog": 1}
    assert telemetry.overhead_seconds_per_step == pytest.approx(8e-6)


def test_a_snapshot_does_not_change_with_the_run(collector: Collector) -> None:
    (process,) = start_ranks(collector, 1)
    process.send(timed_records(range(3)))
    before = look(collector)
    seen: RankState = before.ranks[0]
    dropped, excluded = dict(seen.records_dropped), dict(before.steps.excluded)
    process.heartbeat = pb.Heartbeat(dropped_ring=9)
    process.send(timed_records(range(3, 6), tags=Tag.EVAL))
    assert (seen.steps, before.steps.completed) == (3, 3)
    assert seen.records_dropped == dropped
    assert before.steps.excluded == excluded


def test_a_rank_that_an_elastic_restart_left_out_need_not_say_goodbye(
    collector: Collector,
) -> None:
    start_ranks(collector, 2)
    (alone,) = start_ranks(collector, 1, attempt=1)
    alone.goodbye()
    assert collector.have_all_parted()
    assert look(collector).ranks_expected == 0


def test_failed_requests_are_told_in_the_notes(collector: Collector) -> None:
    assert look(collector).notes == ()
    collector.refused[INTERNAL] = 2
    (note,) = look(collector).notes
    assert note.startswith("2 requests failed inside the sidecar")


def test_requests_that_make_no_sense_are_told_in_the_notes(collector: Collector) -> None:
    collector.refused[MalformedError.reason] = 3
    assert look(collector).notes == ("3 requests were nothing that a rank would send",)


@pytest.mark.parametrize(("world_size", "noted"), [(4, 1), (2, 0)])
def test_a_node_that_waits_says_that_it_sees_no_other_node_s_ranks(
    collector: Collector, world_size: int, noted: int
) -> None:
    for rank in range(2):
        identity = make_identity(rank, world_size)
        identity.local_world_size = 2
        process = Process(collector, identity, f"s{rank}").hello()
        process.send(timed_records(range(50), collective_wait=50))
    found = [note for note in look(collector).notes if "of another node" in note]
    assert len(found) == noted
    assert all("is waiting" in note for note in found)


def test_notes_are_bounded(collector: Collector) -> None:
    for protocol in range(2, 200):
        with pytest.raises(ProtocolTooNewError):
            tell(collector, hello=pb.HelloRequest(protocol=protocol, session="x"))
    assert len(look(collector).notes) == MAX_NOTES


def one_slow(collector: Collector, groups: tuple[str, str], steps: int = 50) -> None:
    """A run of two ranks, the second of which takes 10 ms longer in backward."""
    fast, slow = start_ranks(collector, 2, groups=groups)
    fast.send(timed_records(range(steps), collective_wait=14.0))
    slow.send(timed_records(range(steps), backward=30.0))


def test_what_others_waited_for_a_rank_is_told_with_it(collector: Collector) -> None:
    one_slow(collector, ("same", "same"))
    fast, slow = look(collector).ranks
    assert slow.lost_seconds["backward"] == pytest.approx(50 * 0.010)
    assert sum(slow.lost_seconds.values()) == pytest.approx(0.5)
    assert set(fast.lost_seconds.values()) == {0.0}


def test_of_a_rank_that_completed_no_step_nothing_is_lost(collector: Collector) -> None:
    start_ranks(collector, 1)
    assert look(collector).ranks[0].lost_seconds == {}


def test_ranks_with_other_shares_of_the_model_are_not_compared(collector: Collector) -> None:
    one_slow(collector, ("first half", "second half"))
    snapshot = look(collector)
    assert [rank.group for rank in snapshot.ranks] == ["first half", "second half"]
    assert not any(sum(rank.lost_seconds.values()) for rank in snapshot.ranks)
    for scope in (snapshot.window, snapshot.whole):
        assert [of.group for of in scope.ranks.values()] == ["first half", "second half"]
        assert not any(of.late_ratio or of.led_ratio for of in scope.ranks.values())
        assert scope.lengths is not None
        assert scope.lengths.imbalance_seconds is None


def test_the_host_is_what_was_sampled_of_it(collector: Collector) -> None:
    assert look(collector).host is None
    tell(collector, sampled=host_sample())
    snapshot = look(collector)
    assert snapshot.host is not None
    assert snapshot.host.cpu_utilization_ratio == 0.25
    assert snapshot.host_window.samples == snapshot.host_whole.samples == 1


def test_a_run_is_judged_by_the_policy_that_it_was_started_with(collector: Collector) -> None:
    one_slow(collector, ("same", "same"))
    assert look(collector).whole_diagnoses["step_time"].primary.state == "COMPUTE_STRAGGLER"
    tell(collector, started=pb.Started(policy=PATIENT))
    assert look(collector).whole_diagnoses["step_time"].primary.state != "COMPUTE_STRAGGLER"


@pytest.mark.parametrize("by_checkpoint", [False, True])
def test_policy_and_host_are_known_again_after_a_replay(
    tmp_path: Path, by_checkpoint: bool
) -> None:
    store = Store(tmp_path / "journal")
    store.open()
    store.tell(pb.Entry(at=STARTED_AT, started=pb.Started(policy=PATIENT)))
    store.tell(pb.Entry(at=STARTED_AT, sampled=host_sample()))
    tellers = [Teller(rank, 2) for rank in range(2)]
    for teller, (backward, wait) in zip(tellers, ((20.0, 14.0), (30.0, 4.0)), strict=True):
        store.tell(teller.hello())
        teller.make(timed_records(range(50), backward=backward, collective_wait=wait))
        teller.deliver(store)
    before = seen(store)
    if by_checkpoint:
        store.checkpoint()
    store.crash()
    store.open()
    assert before.whole.steps == 50
    assert before.whole_diagnoses["step_time"].primary.state != "COMPUTE_STRAGGLER"
    assert seen(store) == before
    store.crash()


def seen(store: Store) -> Snapshot:
    store.collector.clock = Clock()
    return look(store.collector)

from dataclasses import replace

from tests.builders import Clock, golden_collector, make_collector, tell
from traceml.diagnosis.finding import STEP_TIME
from traceml.sidecar.checkpoint import capture, pack, unpack
from traceml.sidecar.collector import Collector
from traceml.sidecar.timeline import MAX_TURNS, turned
from traceml.snapshot import Turn
from traceml.wire import telemetry_pb2 as pb


def test_what_was_seen_is_told_once() -> None:
    clock = Clock()
    collector = golden_collector(clock)
    first = turned(collector.snapshot())
    assert first is not None
    tell(collector, diagnosed=first)
    snapshot = collector.snapshot()
    finding = snapshot.window_diagnoses[STEP_TIME].primary
    assert snapshot.turns == (
        Turn(clock.now, "COMPUTE_STRAGGLER", finding.severity, 1, "backward"),
    )
    assert turned(snapshot) is None


def test_another_severity_of_the_same_finding_is_a_turn() -> None:
    collector = golden_collector(Clock())
    first = turned(collector.snapshot())
    assert first is not None
    tell(collector, diagnosed=first)
    snapshot = collector.snapshot()
    (last,) = snapshot.turns
    assert turned(replace(snapshot, turns=(replace(last, severity="info"),))) == first


def test_nobody_s_finding_has_neither_rank_nor_phase() -> None:
    collector = make_collector(Clock())
    seen = turned(collector.snapshot())
    tell(collector, diagnosed=seen)
    (turn,) = collector.snapshot().turns
    assert (turn.state, turn.rank, turn.phase) == ("NO_DATA", None, None)


def test_the_last_turns_are_kept() -> None:
    clock = Clock()
    collector = make_collector(clock)
    for number in range(MAX_TURNS + 50):
        clock.advance(1.0)
        tell(collector, diagnosed=pb.Diagnosed(state="JITTER", severity="info", rank=number))
    turns = collector.snapshot().turns
    assert [turn.rank for turn in turns] == list(range(50, MAX_TURNS + 50))


def test_turns_outlive_a_checkpoint() -> None:
    collector = make_collector(Clock())
    tell(collector, diagnosed=pb.Diagnosed(state="STALLED", severity="critical", rank=0))
    loaded = Collector.load(unpack(pack(capture(collector.save()))))
    assert loaded.snapshot().turns == collector.snapshot().turns

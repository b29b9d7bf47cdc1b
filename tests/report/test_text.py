from dataclasses import replace

import pytest

from tests.builders import (
    Clock,
    end,
    golden_run,
    look,
    make_collector,
    run_of,
    start_ranks,
    timed_records,
)
from tests.report.long import long_summary
from traceml.report.summary import summarized
from traceml.report.text import summary_text
from traceml.snapshot import Snapshot
from traceml.wire import telemetry_pb2 as pb

LONGEST_NAME = "n" * 100
NOTE = "rank 3 is far away and " * 8 + "update the sidecar"


def text_of(snapshot: Snapshot) -> str:
    return summary_text(summarized(snapshot))


def noted(snapshot: Snapshot, *notes: str) -> Snapshot:
    return replace(snapshot, notes=notes)


@pytest.mark.parametrize("ranks", [1, 2, 64])
@pytest.mark.parametrize("name", ["demo", LONGEST_NAME])
def test_no_line_is_wider_than_100_columns(ranks: int, name: str) -> None:
    text = text_of(noted(run_of(ranks, name=name), NOTE))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.endswith("\n")


@pytest.mark.parametrize("name", ["demo", LONGEST_NAME])
def test_the_title_tells_how_the_run_ended(name: str) -> None:
    title = text_of(run_of(1, name=name)).splitlines()[0]
    assert title.startswith(f"TraceML  {name[:40]}")
    assert title.endswith("completed, exit code 0  after 60.0 s")


def test_a_note_is_shown_to_its_end() -> None:
    text = text_of(noted(run_of(1), NOTE))
    assert " ".join(text[text.index("Note:") :].split()) == f"Note: {NOTE}"


def test_the_setting_names_ranks_strategy_and_versions() -> None:
    assert text_of(run_of(2)).splitlines()[1] == (
        "2 ranks (ddp) on cpu, torch 2.13.0, python 3.11.7"
    )
    assert text_of(run_of(1)).splitlines()[1].startswith("1 rank (single) on cpu")


@pytest.mark.parametrize(
    ("state", "code", "note"),
    [
        ("completed", 0, "Note: No training was seen"),
        ("failed", 1, "Note: The run ended before"),
    ],
)
def test_a_run_that_reported_nothing_says_what_that_may_mean(
    state: str, code: int, note: str
) -> None:
    collector = make_collector(Clock())
    end(collector, state, code)
    text = text_of(look(collector))
    assert text.splitlines()[1] == "No rank has reported"
    assert note in text


def test_a_failed_run_tells_where_the_ranks_that_are_gone_were_last_seen() -> None:
    collector = make_collector(Clock())
    gone, parted = start_ranks(collector, 2)
    gone.send(timed_records(range(3)))
    gone.heartbeat = pb.Heartbeat(step=3, phase="backward")
    gone.beat()
    parted.goodbye()
    end(collector, "failed", 137)
    assert "Last heard of: r0 in step 3, backward\n" in text_of(look(collector))


def test_a_node_of_several_says_that_it_shows_its_own_ranks() -> None:
    snapshot = golden_run()
    several = replace(snapshot, run=replace(snapshot.run, world_size=16, nnodes=8))
    assert text_of(several).splitlines()[1].startswith("this node's 2 of 16 ranks")


def test_steps_left_out_and_lost_are_counted() -> None:
    assert text_of(golden_run()).splitlines()[2] == (
        "24 steps completed, 22 in the figures below; left out: 2 warmup; 1 incomplete"
    )


def test_ranks_are_compared_only_where_there_are_several() -> None:
    assert "  rank     step" not in text_of(run_of(1))
    assert "  rank     step" in text_of(run_of(2))


def test_what_tracing_cost_is_said() -> None:
    assert "TraceML itself: 8.00 us a step on the training thread, 0 records lost" in (
        text_of(run_of(2))
    )


def test_memory_machine_and_processes_are_told() -> None:
    lines = summary_text(long_summary()).splitlines()
    assert "Peak resident memory 14.8 GiB on r1, median 13.8 GiB" in lines
    assert "Host CPU 25 % busy, memory up to 25 % of 32.0 GiB" in lines
    use = "75 % busy, memory up to 12 %, up to 60 C, power 50 % of its limit, SM clock at 75 %"
    assert f"GPU 0, 1: {use}" in lines
    assert (
        "Process 0.75 cores (most 0.75 on r0), 8.00 GiB resident (most 8.00 GiB on r0), "
        "when last heard of"
    ) in lines


def test_a_rank_alone_uses_neither_more_nor_less_than_others() -> None:
    assert "(most" in text_of(golden_run())
    assert "(most" not in text_of(run_of(1))


def test_where_ranks_and_devices_wait_is_told_of_the_median_rank() -> None:
    text = " ".join(text_of(golden_run()).split())
    assert (
        "Waiting for other ranks: 622 us in forward, 3.38 ms in backward a step on the median rank"
    ) in text
    assert "Device waiting for the CPU: up to 4 % of the step on the median rank" in text


def test_a_rank_alone_without_a_device_waits_for_nobody() -> None:
    (process,) = start_ranks(collector := make_collector(Clock()), 1)
    process.send(timed_records(range(5), collective_wait=None))
    assert "aiting for" not in text_of(look(collector))

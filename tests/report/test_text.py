from dataclasses import replace

import pytest

from tests.builders import Clock, golden_run, look, make_collector, run_of
from traceml.report.text import summary_text
from traceml.snapshot import Snapshot

LONGEST_NAME = "n" * 100
NOTE = "rank 3 is far away and " * 8 + "update the sidecar"


def noted(snapshot: Snapshot, *notes: str) -> Snapshot:
    return replace(snapshot, notes=notes)


@pytest.mark.parametrize("ranks", [1, 2, 64])
@pytest.mark.parametrize("name", ["demo", LONGEST_NAME])
def test_no_line_is_wider_than_100_columns(ranks: int, name: str) -> None:
    text = summary_text(noted(run_of(ranks, name=name), NOTE))
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.endswith("\n")


@pytest.mark.parametrize("name", ["demo", LONGEST_NAME])
def test_the_title_tells_how_the_run_ended(name: str) -> None:
    title = summary_text(run_of(1, name=name)).splitlines()[0]
    assert title.startswith(f"TraceML  {name[:40]}")
    assert title.endswith("completed, exit code 0  after 60.0 s")


def test_a_note_is_shown_to_its_end() -> None:
    text = summary_text(noted(run_of(1), NOTE))
    assert " ".join(text[text.index("Note:") :].split()) == f"Note: {NOTE}"


def test_the_setting_names_ranks_strategy_and_versions() -> None:
    assert summary_text(run_of(2)).splitlines()[1] == (
        "2 ranks (ddp) on cpu, torch 2.13.0, python 3.11.7"
    )
    assert summary_text(run_of(1)).splitlines()[1].startswith("1 rank (single) on cpu")


def test_a_run_that_no_rank_reported_asks_whether_it_was_traced() -> None:
    text = summary_text(look(make_collector(Clock())))
    assert "No rank has reported: is the loop wrapped in trace_step(model)?" in text
    assert "No completed step to show yet." in text


def test_steps_left_out_and_lost_are_counted() -> None:
    assert summary_text(golden_run()).splitlines()[2] == (
        "24 steps completed, 22 in the figures below; left out: 2 warmup; 1 incomplete"
    )


def test_ranks_are_compared_only_where_there_are_several() -> None:
    assert "own work" not in summary_text(run_of(1))
    assert "own work" in summary_text(run_of(2))


def test_what_tracing_cost_is_said() -> None:
    assert "TraceML itself: 8.00 us a step on the training thread, 0 records lost" in (
        summary_text(run_of(2))
    )

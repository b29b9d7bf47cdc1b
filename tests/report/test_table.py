import re

import pytest

from tests.builders import run_of
from tests.sidecar.scopes import means_of, scope_of
from traceml.report.table import phase_table, rank_table
from traceml.sidecar.statistics import NOTHING, statistics
from traceml.snapshot import Statistics
from traceml.wire.columns import PHASES


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def of_ranks(*ranks_ms: dict[str, float]) -> Statistics:
    """Statistics of ranks with these milliseconds; what is not named was not measured."""
    return statistics(scope_of(*(means_of(**ms) for ms in ranks_ms)))


def test_without_a_completed_step_the_table_says_so() -> None:
    assert phase_table(NOTHING) == ["  no completed step to show"]


def test_a_phase_shows_its_median_worst_rank_skew_share_and_bar() -> None:
    header, row, _ = phase_table(of_ranks({"step": 40, "forward": 10}, {"step": 40, "forward": 15}))
    assert header.split() == ["phase", "median", "worst", "rank", "skew", "share"]
    assert cells(row) == ["forward", "10.0 ms", "15.0 ms", "r1", "50 %", "25 %", "█████"]


def test_phases_stand_in_the_order_of_the_step_and_the_step_last() -> None:
    lines = phase_table(run_of(2).whole)
    assert [line.split()[0] for line in lines[1:]] == [*PHASES, "step"]


def test_a_phase_that_was_not_measured_has_no_row() -> None:
    lines = phase_table(of_ranks({"step": 40, "forward": 10}))
    assert [line.split()[0] for line in lines] == ["phase", "forward", "step"]


@pytest.mark.parametrize(("share", "length"), [(0.0, 0), (0.5, 10), (1.0, 20), (3.0, 20)])
def test_the_bar_is_as_long_as_the_share_and_never_longer_than_the_whole(
    share: float, length: int
) -> None:
    row = phase_table(of_ranks({"step": 100, "forward": 100 * share}))[1]
    assert row.count("█") == length


def test_columns_are_aligned() -> None:
    header, *rows = rank_table(run_of(3).whole)
    assert {len(row) for row in rows} == {len(header)}


def test_each_rank_shows_its_own_work_and_its_waiting() -> None:
    header, row = rank_table(of_ranks({"step": 12, "backward": 8, "collective_wait": 4}))
    assert cells(header) == ["rank", "step", "own work", "backward", "wait"]
    assert cells(row) == ["r0", "12.0 ms", "8.00 ms", "8.00 ms", "4.00 ms"]


def test_a_value_that_one_rank_lacks_is_a_dash() -> None:
    rows = rank_table(of_ranks({"step": 12, "h2d": 8}, {"step": 12}))
    assert cells(rows[2]) == ["r1", "12.0 ms", "-", "-"]


def test_of_many_ranks_those_with_the_most_own_work_are_shown_in_order() -> None:
    lines = rank_table(run_of(64).whole)
    shown = [line.split()[0] for line in lines[1:-1]]
    assert shown == [f"r{rank}" for rank in range(48, 64)]
    assert lines[-1] == "  ... and 48 ranks with less own work"


def test_no_rank_is_left_out_where_all_have_room() -> None:
    lines = rank_table(run_of(16).whole)
    assert len(lines) == 1 + 16
    assert lines[-1].split()[0] == "r15"


def test_a_rank_alone_is_compared_with_nobody() -> None:
    header, row, _ = phase_table(of_ranks({"step": 40, "forward": 10}))
    assert header.split() == ["phase", "time", "share"]
    assert row.split()[:3] == ["forward", "10.0", "ms"]


def test_ranks_that_are_left_out_have_less_own_work_only_where_that_is_known() -> None:
    seen = {"step": 40.0, "backward": 10.0, "collective_wait": 30.0}
    unseen = {"step": 40.0, "backward": 40.0}
    assert rank_table(of_ranks(*[seen] * 20))[-1] == "  ... and 4 ranks with less own work"
    assert rank_table(of_ranks(*[unseen] * 20))[-1] == "  ... and 4 more ranks"

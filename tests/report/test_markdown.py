from tests.builders import Clock, look, make_collector
from tests.report.hostile import hostile_summary
from tests.report.long import long_summary
from traceml.report.markdown import summary_markdown
from traceml.report.summary import summarized


def test_the_verdict_stands_above_the_tables() -> None:
    lines = summary_markdown(long_summary()).splitlines()
    assert lines[0] == "## TraceML: demo"
    verdict = lines.index("**INPUT STRAGGLER (critical) rank 1, dataloader**")
    assert verdict < lines.index("| phase | median | worst | rank | skew | share |")
    assert any(line.startswith("**Next:** ") for line in lines)


def test_every_row_of_a_table_has_as_many_cells_as_its_header() -> None:
    rows = [line for line in summary_markdown(long_summary()).splitlines() if line.startswith("|")]
    widths = [row.count("|") - row.count("\\|") for row in rows]
    assert set(widths[:10]) == {7}
    assert set(widths[10:]) == {11}


def test_what_a_user_has_named_is_no_markup() -> None:
    text = summary_markdown(hostile_summary())
    assert "<script" not in text.replace("\\<script", "")
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("## ")]) == 1


def test_a_run_that_reported_nothing_is_told_as_such() -> None:
    assert "No rank has reported" in summary_markdown(summarized(look(make_collector(Clock()))))

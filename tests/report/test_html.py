import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.builders import (
    Clock,
    golden_run,
    look,
    make_collector,
    run_of,
    start_ranks,
    tell,
    timed_records,
)
from tests.conftest import require_program
from tests.report.hostile import OUTSIDE, TROUBLE, hostile_summary
from tests.report.long import long_summary
from traceml.report.document import Summary
from traceml.report.facts import whole_run
from traceml.report.html import summary_html
from traceml.report.summary import summarized
from traceml.report.table import phase_cells
from traceml.wire import telemetry_pb2 as pb
from traceml.wire.columns import PHASES

VOID = {"meta"}
PICTURES = {
    "time of a typical step by phase and rank",
    "steps, findings and memory over the run",
    "how many steps took how long",
    "highest memory by rank, and its limit",
}


class Page(HTMLParser):
    """Elements, attributes and text of a page; an element left open is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def svgs(page: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


@pytest.fixture(scope="module")
def full() -> Summary:
    return long_summary()


def test_the_page_holds_every_picture(full: Summary) -> None:
    attributes = Page(summary_html(full)).attributes
    assert {value for _, name, value in attributes if name == "aria-label"} == PICTURES


def test_pictures_are_sound_xml_without_impossible_numbers(full: Summary) -> None:
    for picture in svgs(summary_html(full)):
        for element in ElementTree.fromstring(picture).iter():
            for name in ("x", "y", "width", "height", "x1", "x2", "y1", "y2"):
                assert float(re.sub("%$", "", element.get(name, "0"))) >= 0


@pytest.mark.parametrize("summary", [hostile_summary(), long_summary()], ids=["hostile", "long"])
def test_the_page_runs_nothing_and_asks_nobody(summary: Summary) -> None:
    page = Page(summary_html(summary))
    assert not set(page.elements) & {
        "script", "img", "link", "iframe", "object", "embed", "style", "a", "form", "base", "use",
        "image", "foreignobject", "animate", "set",
    }  # fmt: skip
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not [n for _, n, _ in page.attributes if n in ("src", "href", "xlink:href", "action")]
    styles = " ".join(value for _, name, value in page.attributes if name == "style")
    assert "url(" not in styles
    assert "@import" not in styles


def test_what_a_user_has_named_stands_there_as_text() -> None:
    page = summary_html(hostile_summary())
    said = "".join(Page(page).text)
    assert said.count(TROUBLE) >= 5
    assert f"<img src={OUTSIDE}>" in said
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x00" not in page
    page.encode("utf-8")


def test_the_tables_hold_what_the_one_renderer_gives(full: Summary) -> None:
    text = Page(summary_html(full)).text
    for row in phase_cells(whole_run(full)).rows:
        at = text.index(row[0], text.index("Where a step goes"))
        assert [cell for cell in text[at : at + 6] if cell][: len(row)][1:3] == list(row[1:3])


def test_excluded_steps_and_turns_can_be_pointed_at(full: Summary) -> None:
    titles = re.findall(r"<title>(.*?)</title>", summary_html(full))
    assert any(re.fullmatch(r"\d+ left out until .*", tip) for tip in titles)
    assert any("INPUT STRAGGLER (critical), rank 1, dataloader" in tip for tip in titles)
    assert any(re.match(r"rank 1, dataloader: ", tip) for tip in titles)


def test_the_verdict_comes_first(full: Summary) -> None:
    text = [part for part in Page(summary_html(full)).text if part.strip()]
    assert "INPUT STRAGGLER" in text[:12]


def test_a_run_that_reported_nothing_has_a_page_too() -> None:
    said = " ".join(Page(summary_html(summarized(look(make_collector(Clock()))))).text)
    assert "NO DATA" in said
    assert "No rank has reported" in said


def test_a_run_of_one_rank_is_not_compared_with_others() -> None:
    text = Page(summary_html(summarized(run_of(1, steps=50)))).text
    assert "own work" not in text
    assert "median" not in text


@pytest.mark.parametrize("ranks", [2, 64])
def test_phases_of_the_ranks_are_drawn_one_behind_the_other(ranks: int) -> None:
    summary = summarized(run_of(ranks, steps=50))
    picture = next(of for of in svgs(summary_html(summary)) if "by phase and rank" in of)
    bars = [e for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("rect")]
    bars = [bar for bar in bars if bar.get("height") == "18"]
    assert len(bars) == len(PHASES) * min(ranks, 16)
    first = bars[: len(PHASES)]
    ends = [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in first]
    assert [float(bar.get("x", 0)) for bar in first[1:]] == pytest.approx(ends[:-1], abs=0.2)


def test_the_golden_run_s_lost_time_and_left_out_steps_are_told() -> None:
    collector_run = golden_run()
    said = " ".join(Page(summary_html(summarized(collector_run))).text)
    assert "24 steps completed, 22 in the figures below; left out: 2 warmup; 1 incomplete" in said


def test_chromium_shows_the_page_and_runs_nothing_in_it(tmp_path: Path) -> None:
    """The page as a real browser makes it: nothing of what the user named has become markup."""
    chromium = require_program("chromium")
    file = tmp_path / "final_summary.html"
    file.write_text(summary_html(hostile_summary()), encoding="utf-8")
    shown = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert "<title>TraceML: &lt;/title&gt;&lt;script&gt;" in shown
    assert "<title>owned" not in shown
    assert shown.count("<svg") == 4
    assert "<img" not in shown


def test_a_turn_too_short_to_be_named_can_still_be_pointed_at() -> None:
    clock = Clock()
    collector = make_collector(clock)
    (rank,) = start_ranks(collector, 1)
    rank.send(timed_records(range(50)))
    for second in range(1, 100):
        clock.advance(1.0)
        tell(collector, diagnosed=pb.Diagnosed(state="JITTER", severity="warning", rank=second))
    page = summary_html(summarized(look(collector)))
    assert page.count("JITTER (warning), rank") == 99


def test_the_lengths_of_steps_are_marked_by_round_values(full: Summary) -> None:
    (picture,) = (each for each in svgs(summary_html(full)) if "how many steps" in each)
    marks = re.findall(r">(\d\d\.\d ms)<", picture)
    assert marks == ["45.0 ms", "50.0 ms", "55.0 ms", "60.0 ms", "65.0 ms", "70.0 ms", "75.0 ms"]


def test_percentiles_that_lie_together_are_marked_once(full: Summary) -> None:
    (picture,) = (each for each in svgs(summary_html(full)) if "how many steps" in each)
    assert re.findall(r">(p\d\d) ", picture) == ["p50"]
    assert "p95 73.5 ms, p99 73.5 ms" in " ".join(Page(summary_html(full)).text)

"""The summary as one page: no script, nothing from elsewhere, styles where they apply.

Tables carry all figures, so that it can be read where pictures are taken out, as some
mail programs do.
"""

from collections.abc import Iterator, Sequence

from traceml import units
from traceml.diagnosis.finding import title
from traceml.report import facts
from traceml.report.document import Finding, Rank, Summary
from traceml.report.markup import FONT, Markup, element, joined
from traceml.report.overtime import SEVERITY_COLOURS, over_time
from traceml.report.pictures import COLOURS, lengths, memory_by_rank, phases_by_rank
from traceml.report.svg import INK, LINE, SOFT
from traceml.report.table import Table, heaviest, phase_cells, rank_cells
from traceml.snapshot import Statistics

_PAGE = f"margin:0;padding:0;background:#eceff3;color:{INK};font-family:{FONT};font-size:14px"
_SHEET = "width:100%;max-width:944px;margin:0 auto;border-collapse:collapse;table-layout:fixed"
_CARD = f"background:#ffffff;border:1px solid {LINE};padding:20px 24px;overflow-x:auto"
_CELL = f"padding:5px 10px;border-bottom:1px solid {LINE};white-space:nowrap"
_SAFE = "default-src 'none'; style-src 'unsafe-inline'"  # whatever else might get into the page
_TINTS = {"info": "#eef6f0", "warning": "#fdf5e6", "critical": "#fbecea"}
_STATUS_COLOURS = {"completed": "#2e7d4f", "failed": "#c0392b"}


def summary_html(summary: Summary) -> str:
    """The whole page."""
    cards = [_card(content) for content in _cards(summary) if content]
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_SAFE}">'),
        element("title", f"TraceML: {summary.run.name}"),
    )
    sheet = element(
        "table", *_spaced([_masthead(summary), *cards, _footer(summary)]),
        role="presentation", style=_SHEET,
    )  # fmt: skip
    body = element("body", element("div", sheet, style="padding:24px 16px"), style=_PAGE)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _cards(summary: Summary) -> Iterator[Markup | None]:
    yield _verdict(summary)
    if summary.run.world_size is None:
        yield _remarks(summary)
        return
    whole = facts.whole_run(summary)
    yield _tiles(summary)
    yield _titled("Where a step goes", _table(phase_cells(whole), COLOURS))
    yield _titled("By rank", *_ranks(summary, whole))
    yield _titled("Over the run", over_time(summary))
    yield _titled("How long steps took", *_lengths(summary))
    yield _titled("Memory", *_memory(summary, whole))
    yield _titled("Machine and processes", *_machine(summary))
    yield _remarks(summary)


def _titled(text: str, *content: Markup | None) -> Markup | None:
    """Nothing at all where there is no content."""
    style = "font-size:16px;font-weight:700;margin:0 0 12px"
    return joined(element("h2", text, style=style), *content) if any(content) else None


def _masthead(summary: Summary) -> Markup:
    run = summary.run
    colour = _STATUS_COLOURS.get(run.status, SOFT)
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    pill = f"background:{colour};color:#ffffff;border-radius:10px;padding:2px 10px;font-size:12px"
    name = "font-size:24px;font-weight:700;margin:2px 0 6px;word-break:break-all"
    kind = f"color:{SOFT};font-size:12px;letter-spacing:.08em;text-transform:uppercase"
    when = f"{facts.moment(run.started_at)}, for {units.duration(run.duration_seconds)}"
    return joined(
        element("div", "TraceML run summary", style=kind),
        element("h1", run.name, style=name),
        element("span", f"{run.status}{code}", style=pill),
        element("span", f"  {when}", style=f"color:{SOFT};white-space:pre-wrap"),
        element("div", facts.setting(summary), style=f"color:{SOFT};margin-top:6px"),
    )


def _verdict(summary: Summary) -> Markup:
    first = summary.primary_diagnosis
    colour = SEVERITY_COLOURS[first.severity]
    style = f"border-left:6px solid {colour};background:{_TINTS[first.severity]};padding:14px 18px"
    lost = first.lost_seconds_per_step
    cost = f"Costs {units.seconds(lost)} a step. " if lost else ""
    box = element(
        "div",
        _name(first, 20),
        element("div", first.summary, style="margin-top:8px;font-size:15px;line-height:1.5"),
        _line("Next", first.action) if first.action else None,
        element(
            "div", f"{cost}Confidence: {first.confidence}.",
            style=f"margin-top:8px;color:{SOFT};font-size:12px",
        ),
        style=style,
    )  # fmt: skip
    others = (_other(finding, action) for finding, action in facts.others(summary))
    return joined(box, *others)


def _other(finding: Finding, action: str) -> Markup:
    colour = SEVERITY_COLOURS[finding.severity]
    return element(
        "div",
        _name(finding, 14),
        element("div", finding.summary, style="margin-top:3px"),
        _line("Next", action) if action else None,
        style=f"border-left:6px solid {colour};padding:4px 18px;margin-top:14px",
    )


def _name(finding: Finding, size: int) -> Markup:
    passing = ", passing" if finding.chronic is False else ""
    at = facts.where(finding.rank, finding.phase)
    return element(
        "div",
        element("span", title(finding.state), style=f"font-size:{size}px;font-weight:700"),
        element("span", f"  {finding.severity}{passing}", style=f"color:{SOFT}"),
        element("span", f"  {at}", style="font-weight:600") if at else None,
        style="white-space:pre-wrap",
    )


def _line(label: str, text: str) -> Markup:
    return element("div", element("b", f"{label}: "), text, style="margin-top:6px;line-height:1.5")


def _tiles(summary: Summary) -> Markup:
    times = summary.step_time
    lost = sum(rank.lost_seconds for rank in summary.ranks)
    tiles = {
        "steps": f"{times.steps.completed:,}",
        "typical step": units.seconds(times.step.median_seconds if times.step else None),
        "95 % of steps within": units.seconds(times.step_quantiles_seconds.get("p95")),
        "waited for stragglers": units.duration(lost) if lost else "0",
        "TraceML's own cost a step": units.seconds(summary.telemetry.overhead_seconds_per_step),
    }
    counted = element("div", facts.counted(summary), style=f"color:{SOFT};margin-top:10px")
    return joined(*(_tile(name, value) for name, value in tiles.items()), counted)


def _tile(name: str, value: str) -> Markup:
    return element(
        "div",
        element("div", value, style="font-size:22px;font-weight:700"),
        element("div", name, style=f"color:{SOFT};font-size:12px"),
        style="display:inline-block;vertical-align:top;width:19.5%;min-width:150px;padding:2px 0",
    )


def _table(table: Table, colours: dict[str, str] | None = None) -> Markup:
    """The cells of a table, its bars as wide as what they stand for."""
    if not table.header:
        return element("div", table.remark, style=f"color:{SOFT}")
    header = element("tr", *(_cell(text, n, "th") for n, text in enumerate(table.header)),
                     element("th", style=_CELL) if table.bars else None)  # fmt: skip
    rows = []
    for number, row in enumerate(table.rows):
        colour = colours.get(row[0], "transparent") if colours else None
        bar = _bar(table.bars[number], colour) if table.bars else None
        cells = [_cell(text, n, "td", colour) for n, text in enumerate(row)]
        rows.append(element("tr", *cells, bar))
    remark = element("div", table.remark, style=f"color:{SOFT};padding:6px 10px")
    return joined(_plain_table(header, *rows), remark if table.remark else None)


def _cell(text: str, column: int, kind: str, colour: str | None = None) -> Markup:
    align = "left" if column == 0 else "right"
    weight = f"color:{SOFT};font-weight:600;font-size:12px" if kind == "th" else ""
    if colour == "transparent":  # what all phases add up to
        weight = "font-weight:700"
    numeric = "font-variant-numeric:tabular-nums"
    chip = f"display:inline-block;width:10px;height:10px;border-radius:2px;background:{colour}"
    mark = element("span", style=f"{chip};margin-right:8px") if colour and column == 0 else None
    return element(kind, mark, text, style=f"{_CELL};text-align:{align};{numeric};{weight}")


def _bar(share: float, colour: str | None) -> Markup:
    bar = f"width:{share * 100:.1f}%;height:12px;background:{colour or LINE};border-radius:2px"
    return element("td", element("div", style=bar) if share else None, style=f"{_CELL};width:45%")


def _ranks(summary: Summary, whole: Statistics) -> Iterator[Markup]:
    if whole.ranks:
        yield phases_by_rank(whole)
    if len(whole.ranks) > 1:
        yield _table(rank_cells(whole))
    yield from (_said(text) for text in facts.waiting(summary))


def _lengths(summary: Summary) -> Iterator[Markup | None]:
    distribution = summary.step_time.distribution
    quantiles = summary.step_time.step_quantiles_seconds
    if distribution is not None:
        marked = [name for name in ("p50", "p95", "p99") if name in quantiles]
        yield lengths(distribution, [(name, quantiles[name]) for name in marked])
    yield from (_said(text) for text in facts.lengths(summary))


def _memory(summary: Summary, whole: Statistics) -> Iterator[Markup | None]:
    shown = heaviest(whole) or [rank.rank for rank in summary.ranks[:16]]
    yield memory_by_rank(summary, shown)
    yield from (_said(text) for text in facts.memory(summary))


def _said(text: str) -> Markup:
    return element("div", text, style=f"color:{SOFT};margin-top:4px")


def _machine(summary: Summary) -> Iterator[Markup]:
    for text in (*facts.system(summary), *facts.process(summary), facts.telemetry(summary)):
        yield element("div", text, style="margin:3px 0")
    header = ("rank", "host", "device", "steps", "CPU time", "cores", "resident", "waited for it")
    rows = [_process_row(rank) for rank in summary.ranks[:64]]
    left_out = len(summary.ranks) - len(rows)
    remark = f"... and {left_out} more ranks" if left_out else ""
    yield element("div", _table(Table(header, tuple(rows), remark=remark)), style="margin-top:12px")


def _process_row(rank: Rank) -> tuple[str, ...]:
    use = rank.process
    return (
        f"r{rank.rank}",
        rank.host or "-",
        rank.device or "-",
        f"{rank.steps:,}",
        "-" if use.cpu_seconds is None else units.duration(use.cpu_seconds),
        "-" if use.cpu_cores is None else f"{use.cpu_cores:.2g}",
        units.bytes_(use.resident_bytes),
        units.duration(rank.lost_seconds) if rank.lost_seconds else "0",
    )


def _remarks(summary: Summary) -> Markup | None:
    said = [element("li", text, style="margin:4px 0") for text in facts.remarks(summary)]
    return element("ul", *said, style="margin:0;padding-left:18px") if said else None


def _footer(summary: Summary) -> Markup:
    command = " ".join(summary.run.command)
    code = "font-family:ui-monospace,Menlo,Consolas,monospace;word-break:break-all"
    return element(
        "div",
        element("div", command, style=code) if command else None,
        f"run {summary.run.id}, made by TraceML {summary.run.traceml}",
        style=f"color:{SOFT};font-size:12px;line-height:1.7",
    )


def _plain_table(*rows: Markup) -> Markup:
    return element("table", *rows, style="width:100%;border-collapse:collapse")


def _card(content: Markup) -> Markup:
    return element("div", content, style=_CARD)


def _spaced(rows: Sequence[Markup]) -> Iterator[Markup]:
    for row in rows:
        yield element("tr", element("td", row, style="padding:0 0 14px"))

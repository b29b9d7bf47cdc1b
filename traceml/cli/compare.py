"""`traceml compare`: a run against one baseline or several, for people and for CI."""

import argparse
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml.cli.errors import USAGE, CommandError
from traceml.cli.out import out
from traceml.cli.prepare import say
from traceml.files import write_atomically
from traceml.report.compare.gate import FAIL_ON, LIMITED, Gate

if TYPE_CHECKING:
    from traceml.report.compare.comparison import Comparison
    from traceml.report.compare.side import Side

FORMATS = ("text", "json", "markdown", "github")
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

_EPILOG = """\
verdicts:
  REGRESSION    something counts as worse: it passes the threshold, a floor and the noise
  IMPROVEMENT   something counts as better, nothing as worse
  MIXED         both
  EQUIVALENT    the step time is shown to be within the threshold
  INCONCLUSIVE  none of these can be shown; it says how many steps or baselines would do

exit codes:
  0  the gate passes, or there is none
  1  --fail-on regression and it is one (MIXED counts), or a --max is exceeded
  2  wrong usage, or a summary that can't be read
  3  --fail-on inconclusive, and the verdict is, or a --max can't be judged

examples:
  traceml compare logs/slow logs/fast
  traceml compare main/final_summary.json logs/pr --fail-on regression
  traceml compare --base logs/a --base logs/b --base logs/c logs/pr --max step_time=5%
  traceml compare main.json pr.json --format github     on a GitHub job's page

Equal runs differ by themselves. Three baselines, run in turn with the candidate, tell by how
much; with one a usual amount is assumed. Both files of a comparison go to compare/.
"""


def add_parser(commands: Any) -> None:
    """Add `compare` to the command line."""
    parser = commands.add_parser(
        "compare",
        help="say if a run got faster or slower than another, and why",
        usage="%(prog)s [BASE] CANDIDATE [--base RUN ...] [options]",
        description="Compare the final summaries of two runs or more: ours, or traceml-ai's.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "runs", metavar="RUN", type=Path, nargs="+", help="a final_summary.json or a run's folder"
    )
    parser.add_argument(
        "--base", metavar="RUN", type=Path, action="append", default=[],
        help="a further baseline; repeat it, to learn how much equal runs differ",
    )  # fmt: skip
    parser.add_argument(
        "--threshold", metavar="N%", type=_ratio, help="smaller changes are no news (default 5%%)"
    )
    parser.add_argument(
        "--require-same-environment", action="store_true",
        help="INCONCLUSIVE if machine, world size, device, batch size or versions changed",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=FORMATS, default="text",
        help="what to print; github also appends markdown to the job's page (default text)",
    )  # fmt: skip
    parser.add_argument(
        "--output-dir", metavar="DIR", type=Path, default=Path("compare"),
        help="where <base>_vs_<candidate>.json and .txt go (default compare)",
    )  # fmt: skip
    gate = parser.add_argument_group("gate")
    gate.add_argument(
        "--fail-on", metavar="WHAT", type=_fail_on, default=(),
        help="regression, inconclusive, or regression,inconclusive",
    )  # fmt: skip
    gate.add_argument(
        "--max", metavar="METRIC=N%", type=_limit, action="append", default=[],
        help=f"the most that one of {', '.join(LIMITED)} may grow by; repeat it for more",
    )  # fmt: skip
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Compare, write both files, print, and end as the gate says."""
    from dataclasses import replace

    from traceml.report.compare.comparison import compare
    from traceml.report.compare.rules import DEFAULT

    bases, candidate = _sides(parsed)
    rules = DEFAULT if parsed.threshold is None else replace(DEFAULT, threshold=parsed.threshold)
    compared = compare(
        bases,
        candidate,
        rules,
        Gate(parsed.fail_on, dict(parsed.max)),
        same_environment=parsed.require_same_environment,
    )
    _show(compared, parsed.format)
    _write(compared, parsed.output_dir)
    return compared.exit_code


def _sides(parsed: argparse.Namespace) -> "tuple[list[Side], Side]":
    from traceml.report.compare.reading import read_side
    from traceml.report.reading import UnreadableError

    *first, candidate = parsed.runs
    files = [*first, *parsed.base]
    if len(first) > 1:
        raise CommandError("more than two runs; further baselines go behind --base")
    if not files:
        raise CommandError("nothing to compare with: name a baseline first, or with --base")
    try:
        sides = [read_side(file) for file in (*files, candidate)]
    except UnreadableError as error:
        raise CommandError(str(error), USAGE) from None
    _check_all_different(dict(zip((*files, candidate), sides, strict=True)), len(sides))
    return sides[:-1], sides[-1]


def _check_all_different(sides: "Mapping[Path, Side]", given: int) -> None:
    """A run tells nothing of itself, and equal ones nothing of how much runs differ."""
    if len(sides) < given:
        raise CommandError("a run is named twice")
    seen: dict[str, Path] = {}
    for file, side in sides.items():
        if side.id is not None and seen.setdefault(side.id, file) != file:
            raise CommandError(f"{seen[side.id]} and {file} are the same run")


def _write(compared: "Comparison", directory: Path) -> None:
    from traceml.report.compare.record import comparison_record
    from traceml.report.compare.text import comparison_text

    names = (compared.bases[0].name, compared.candidate.name)
    stem = "_vs_".join(_file_name(name) for name in names)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        document = json.dumps(comparison_record(compared), indent=2)
        write_atomically(directory / f"{stem}.json", document + "\n")
        write_atomically(directory / f"{stem}.txt", comparison_text(compared))
    except OSError as error:
        raise CommandError(
            f"cannot write to {directory}: {error.strerror} (see --output-dir)"
        ) from None


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "run"


def _show(compared: "Comparison", style: str) -> None:
    from traceml.report.compare.markdown import comparison_markdown
    from traceml.report.compare.record import comparison_record
    from traceml.report.compare.text import comparison_text

    if style == "github":
        _append_to_page(comparison_markdown(compared))
    shown: dict[str, Callable[[], str]] = {
        "json": lambda: json.dumps(comparison_record(compared), indent=2) + "\n",
        "markdown": lambda: comparison_markdown(compared),
    }
    out(shown.get(style, lambda: comparison_text(compared))())


def _append_to_page(markdown: str) -> None:
    """The job's page is an extra: what is wrong with it is said, and changes nothing else."""
    page = os.environ.get(_STEP_SUMMARY)
    if not page:
        say(f"{_STEP_SUMMARY} is not set, so there is no page of a job to append to")
        return
    try:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(f"{markdown}\n")
    except OSError as error:
        say(f"cannot append to the page of the job, {page}: {error.strerror}")


def _fail_on(text: str) -> Sequence[str]:
    given = [part.strip() for part in text.split(",")]
    for part in given:
        if part not in FAIL_ON:
            raise argparse.ArgumentTypeError(f"{part!r} is none of {', '.join(FAIL_ON)}")
    return given


def _limit(text: str) -> tuple[str, float]:
    metric, given, ratio = text.partition("=")
    if not given or metric not in LIMITED:
        known = ", ".join(f"{each}=5%" for each in LIMITED)
        raise argparse.ArgumentTypeError(f"{text!r} is none like {known}")
    return metric, _ratio(ratio)


def _ratio(text: str) -> float:
    """A percentage such as 5% or 7.5%."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,6})?\s*%", text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage such as 5%")
    return float(text.strip().removesuffix("%")) / 100

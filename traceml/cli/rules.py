"""`traceml rules`: recording rules and alerts for Prometheus."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.prepare import say
from traceml.files import write_atomically
from traceml.publish.rules.document import ALERT_GROUPS, RECORDING_GROUPS, document, resource
from traceml.publish.rules.duration import Duration
from traceml.publish.rules.options import Options, parse_base, parse_label, parse_share
from traceml.publish.rules.selector import Selector

_DESCRIPTION = """\
Print rules for Prometheus: values of a whole job from the sidecars of all its nodes, and
alerts with runbooks. They are plain rules, for Thanos, Mimir or Cortex as well. Alerts read
recorded values, so load both.
"""

_EPILOG = """\
examples:
  traceml rules > /etc/prometheus/traceml.yml         then `rule_files: [traceml.yml]`
  traceml rules --selector 'job="training",cluster="a"'
  traceml rules --lost-share 0.05 --for 30m --label team=ml
  traceml rules --alerts --runbook-base https://wiki.example.org/traceml/
  traceml rules | promtool check rules /dev/stdin
  traceml rules --kubernetes --selector 'namespace!=""' | kubectl apply -f -

The rate window should hold at least four scrapes, and --for should be longer than it:
then no single slow step can raise an alert. Labels that --selector names stay on
recorded series and alerts; 'cluster!=""' just keeps runs of the same name apart.
"""

_DEFAULTS = Options()
Parsed = TypeVar("Parsed")


def add_parser(commands: Any) -> None:
    """Add `rules` to the command line."""
    parser = commands.add_parser(
        "rules",
        help="print recording rules and alerts for Prometheus",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--recording", action="store_true", help="only the recording rules")
    which.add_argument("--alerts", action="store_true", help="only the alerts")
    parser.add_argument("--kubernetes", action="store_true",
                        help="as a PrometheusRule, for the Prometheus operator")  # fmt: skip
    parser.add_argument("--output", metavar="FILE", type=Path, help="write them there")
    _add_choices(parser.add_argument_group("choices"))
    parser.set_defaults(execute=execute)


def _add_choices(group: Any) -> None:
    def add(flag: str, metavar: str, parse: Callable[[str], Any], text: str) -> None:
        group.add_argument(flag, metavar=metavar, type=_reported(parse), help=text)

    def add_duration(flag: str, default: Duration, text: str) -> None:
        add(flag, "DURATION", Duration.parse, f"{text} (default: {default})")

    add("--selector", "MATCHERS", Selector.parse, "only series with these labels (default: all)")
    add("--lost-share", "SHARE", parse_share,
        "share of wall time that a rank may cost the others; twice as much is critical "
        f"(default: {_DEFAULTS.lost_share:g})")  # fmt: skip
    add_duration("--rate-window", _DEFAULTS.rate_window, "over which that share is taken")
    add_duration("--for", _DEFAULTS.hold, "how long a run may be slow before an alert fires")
    add_duration(
        "--stalled-after",
        _DEFAULTS.stalled_after,
        "how long no step may be completed; the sidecar itself waits for 1m",
    )
    add_duration(
        "--never-started-after", _DEFAULTS.never_started_after, "how long the first may take"
    )
    add_duration(
        "--missing-after", _DEFAULTS.missing_after, "how long a rank or a sidecar may be gone"
    )
    add_duration("--memory-window", _DEFAULTS.memory_window, "over which memory is extrapolated")
    add_duration("--memory-horizon", _DEFAULTS.memory_horizon, "and how far")
    add("--runbook-base", "URL", parse_base,
        f"where the runbooks are (default: {_DEFAULTS.runbook_base})")  # fmt: skip
    group.add_argument("--label", metavar="NAME=VALUE", type=_reported(parse_label), default=[],
                       action="append", dest="labels",
                       help="on every alert; may be given several times")  # fmt: skip
    group.add_argument("--no-keep-firing-for", action="store_false", dest="keeps_firing",
                       help="for Prometheus before 2.42, which does not know it")  # fmt: skip


def _reported(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """With what is wrong told as argparse wants to hear it."""

    def parsed(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def execute(parsed: argparse.Namespace) -> int:
    """Print the rules, or write them."""
    options = _options(parsed)
    groups = {
        **({} if parsed.alerts else RECORDING_GROUPS),
        **({} if parsed.recording else ALERT_GROUPS),
    }
    if options.hold <= options.rate_window:
        say(
            f"warning: --for {options.hold} is not longer than --rate-window "
            f"{options.rate_window}: a single slow step can raise an alert"
        )
    if parsed.kubernetes:
        part = "-recording" if parsed.recording else "-alerts" if parsed.alerts else ""
        text = resource(groups, options, f"traceml{part}")
    else:
        text = document(groups, options)
    if parsed.output is None:
        sys.stdout.write(text)
        return 0
    try:
        write_atomically(parsed.output, text)
    except OSError as error:
        raise CommandError(
            f"cannot write {parsed.output}: {error.strerror}", CANNOT_CREATE
        ) from None
    return 0


def _options(parsed: argparse.Namespace) -> Options:
    """The defaults but for what is given."""
    names = [name for name in Options.__dataclass_fields__ if name not in ("hold", "labels")]
    given = {name: getattr(parsed, name) for name in names}
    given |= {"hold": getattr(parsed, "for"), "labels": _labels(parsed.labels)}
    return Options(**{name: value for name, value in given.items() if value is not None})


def _labels(given: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    for name, _ in given:
        if [each for each, _ in given].count(name) > 1:
            raise CommandError(f"--label {name} is given twice (see traceml rules --help)")
    return tuple(given)

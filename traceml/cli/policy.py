"""`traceml policy`: the thresholds of the diagnoses, and the file that changes them."""

import argparse
import sys
from pathlib import Path
from typing import Any

from traceml.cli.errors import BAD_CONFIG, NO_INPUT, CommandError
from traceml.cli.toml import read_toml
from traceml.diagnosis.policy import DEFAULT, FIELDS, Policy, documented

_EPILOG = """\
example:
  traceml policy > policy.toml      then change what you like, and leave out the rest
  traceml policy --check policy.toml
  traceml run --policy policy.toml train.py
"""


def add_parser(commands: Any) -> None:
    """Add `policy` to the command line."""
    parser = commands.add_parser(
        "policy",
        help="print the thresholds of the diagnoses",
        description="Print the thresholds of the diagnoses, each with its meaning, as a file "
        "that --policy takes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--check", metavar="FILE", type=Path, help="only say if a file is sound")
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print the defaults, or check a file."""
    if parsed.check is None:
        sys.stdout.write(documented())
        return 0
    given = read_policy(parsed.check)
    changed = [name for name, value in given.items() if value != getattr(DEFAULT, name)]
    print(f"{parsed.check} is sound, and changes {', '.join(changed) or 'nothing'}")
    return 0


def read_policy(file: Path | None) -> dict[str, float]:
    """What a file changes; CommandError if it makes no sense."""
    if file is None:
        return {}
    if not file.exists():
        raise CommandError(f"no such policy file: {file}", NO_INPUT)
    given = read_toml(file)
    try:
        policy = Policy.of(given)
    except ValueError as error:
        known = "" if set(given) <= set(FIELDS) else " (`traceml policy` prints all there are)"
        raise CommandError(f"{file}: {error}{known}", BAD_CONFIG) from None
    return {name: float(getattr(policy, name)) for name in given}

"""`traceml env`: what brings TraceML into a script that something else starts."""

import argparse
import os
from typing import Any

from traceml.cli.sidecar import check_endpoint
from traceml.rank import inject
from traceml.wire import ENDPOINT_VARIABLE

_EPILOG = """\
example:
  env $(traceml env unix:///run/traceml/job42.sock) torchrun --nproc-per-node=8 train.py
"""


def add_parser(commands: Any) -> None:
    """Add `env` to the command line."""
    parser = commands.add_parser(
        "env",
        help="print the environment that connects a script to a sidecar",
        description="Print the variables a training process needs to report to `traceml sidecar`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "endpoint", metavar="unix://PATH", help="where the sidecar listens, as it was told"
    )
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print them, one a line."""
    check_endpoint(parsed.endpoint)
    variables = {**inject.environment(os.environ), ENDPOINT_VARIABLE: parsed.endpoint}
    for name in (ENDPOINT_VARIABLE, inject.VARIABLE):
        print(f"{name}={variables[name]}")
    return 0

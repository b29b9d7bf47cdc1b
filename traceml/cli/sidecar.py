"""`traceml sidecar`: the sidecar on its own, for a script that something else starts."""

import argparse
import os
from pathlib import Path
from typing import Any

from traceml.cli import settings
from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.prepare import metrics_url, prepare, say, show
from traceml.sidecar.launch import remove_endpoint
from traceml.wire import ENDPOINT_VARIABLE

_EPILOG = """\
It prints the TRACEML_ENDPOINT that the training processes need in their environment,
serves /metrics, and ends by SIGTERM or Ctrl-C; then it writes and prints the summary.
"""

_LONGEST_SOCKET_PATH = 107  # what fits into the system's sockaddr_un


def add_parser(commands: Any) -> None:
    """Add `sidecar` to the command line."""
    parser = commands.add_parser(
        "sidecar",
        help="run the sidecar alone, for a script started by something else",
        description="Serve the metrics of a run whose ranks find TRACEML_ENDPOINT.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--listen",
        metavar="unix://PATH",
        help="unix socket for the ranks (default: a new one in a private folder)",
    )
    settings.add_flags(parser, settings.SHARED)
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Serve until told to end."""
    chosen = settings.resolve(parsed, settings.SHARED)
    endpoint = _checked(parsed.listen) if parsed.listen else None
    config, listener = prepare(chosen, "sidecar", endpoint)
    say(
        f"run {config.run.name}, metrics at {metrics_url(listener)}, files in {config.directory}\n"
        f"traceml: start the training with {ENDPOINT_VARIABLE}={config.endpoint}"
    )
    try:
        _serve(config, listener)
    finally:
        if endpoint is None:
            remove_endpoint(config.endpoint)
    return 0


def _serve(config: Any, listener: Any) -> None:
    import asyncio
    import logging

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print where we explain
    from traceml.report.text import summary_text
    from traceml.sidecar.process import Sidecar

    logging.basicConfig(
        filename=config.directory / "sidecar.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        final = asyncio.run(Sidecar(config, listener).serve(control=None))
    except OSError as error:
        raise CommandError(str(error), CANNOT_CREATE) from None
    show(f"\n{summary_text(final)}\nSummary in {config.directory / 'final_summary.json'}")


def _checked(endpoint: str) -> str:
    if not endpoint.startswith("unix:///"):
        raise CommandError(f"--listen: {endpoint!r} must be unix:// and an absolute path")
    path = Path(endpoint.removeprefix("unix://"))
    if not path.parent.is_dir():
        raise CommandError(f"--listen: no such folder: {path.parent}", CANNOT_CREATE)
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        raise CommandError(
            f"--listen: the path is longer than {_LONGEST_SOCKET_PATH} bytes", CANNOT_CREATE
        )
    return endpoint

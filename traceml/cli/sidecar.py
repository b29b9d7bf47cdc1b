"""`traceml sidecar`: the sidecar on its own, for a script that something else starts."""

import argparse
import os
from pathlib import Path
from typing import Any

from traceml.cli import settings
from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.prepare import metrics_url, prepare, say, show
from traceml.sidecar.launch import remove_endpoint

_EPILOG = """\
`traceml env` prints what the training processes need in their environment.
It serves /metrics, and ends by SIGTERM or Ctrl-C; then it writes and prints the summary.
"""

_LONGEST_SOCKET_PATH = 107  # what fits into the system's sockaddr_un


def add_parser(commands: Any) -> None:
    """Add `sidecar` to the command line."""
    parser = commands.add_parser(
        "sidecar",
        help="run the sidecar alone, for a script started by something else",
        description="Serve the metrics of a run that something else starts.",
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
    endpoint: str | None = parsed.listen
    if endpoint is not None:
        check_endpoint(endpoint, "--listen: ")
        _check_folder(endpoint)
    config, listener = prepare(chosen, "sidecar", endpoint)
    say(
        f"run {config.run.name}, metrics at {metrics_url(listener)}, files in {config.directory}\n"
        f"traceml: start the training with: env $(traceml env {config.endpoint}) COMMAND"
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


def check_endpoint(endpoint: str, prefix: str = "") -> None:
    """CommandError for an endpoint that can't be one."""
    if not endpoint.startswith("unix:///"):
        raise CommandError(f"{prefix}{endpoint!r} must be unix:// and an absolute path")
    if len(os.fsencode(endpoint.removeprefix("unix://"))) > _LONGEST_SOCKET_PATH:
        raise CommandError(
            f"{prefix}the path is longer than {_LONGEST_SOCKET_PATH} bytes", CANNOT_CREATE
        )


def _check_folder(endpoint: str) -> None:
    folder = Path(endpoint.removeprefix("unix://")).parent
    if not folder.is_dir():
        raise CommandError(f"--listen: no such folder: {folder}", CANNOT_CREATE)

"""`traceml sidecar`: the sidecar on its own, for a script that something else starts."""

import argparse
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml.cli import endpoint, rundir, settings
from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.prepare import metrics_url, prepare, say, show
from traceml.sidecar.access import Access
from traceml.sidecar.config import Config
from traceml.sidecar.launch import remove_endpoint

if TYPE_CHECKING:
    from traceml.sidecar.rebuild import Unfinished

_EPILOG = """\
`traceml env` prints what the training processes need in their environment.
It serves /metrics, and ends by SIGTERM or Ctrl-C; then it writes and prints the summary,
and serves the last values until they are scraped. A second signal ends that.

Started again after it was killed, under the same --run-name, it goes on where it was:
ranks send again what it has not acknowledged.

examples:
  traceml sidecar --run-name job42 --listen unix:///run/traceml/job42.sock
  traceml sidecar --run-name job42 --listen tcp://0.0.0.0:9465 --token-file token
"""


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
    settings.add_flags(parser, settings.FOR_SIDECAR)
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Serve until told to end."""
    chosen = settings.resolve(parsed, settings.FOR_SIDECAR)
    given: str | None = chosen["listen"]
    if given is not None:
        endpoint.check(given, "--listen: ")
        _check_folder(given)
    access = endpoint.access(chosen)
    name = rundir.check_name(chosen["run_name"] or "sidecar")
    previous = _previous(chosen["logs_dir"].absolute(), name)
    if previous is None:
        config, listener = prepare(chosen, name, given)
    else:
        where = given or previous.endpoint
        config, listener = prepare(chosen, name, where, directory=previous.directory)
    going_on = f" goes on after {previous.steps} steps" if previous else ""
    say(
        f"run {config.run.name}{going_on}, metrics at {metrics_url(listener)}, "
        f"files in {config.directory}"
    )
    _say_how_to_report(config.endpoint, access)
    try:
        _serve(config, listener, access)
    finally:
        if given is None:
            remove_endpoint(config.endpoint)
    return 0


def _previous(logs: Path, name: str) -> "Unfinished | None":
    """The run of that name, if its sidecar was killed and this one takes its place."""
    latest = rundir.latest(logs, name)
    if latest is None:
        return None
    from traceml.sidecar.rebuild import unfinished

    return unfinished(latest)


def _say_how_to_report(where: str, access: Access) -> None:
    if endpoint.is_tcp(where) and not access.token and not access.client_authority:
        say("warning: --insecure lets anybody report who reaches the port")
    say(f"start the training with: env $(traceml env {where}) COMMAND")


def _serve(config: Config, listener: socket.socket, access: Access) -> None:
    import asyncio

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print where we explain
    from traceml.sidecar.logs import log_to
    from traceml.sidecar.process import Final, Sidecar

    def finished(final: Final) -> None:
        where = config.directory / "final_summary.json"
        show(f"\n{final.text}\n" + ("" if final.problem else f"Summary in {where}"))
        if final.problem:
            say(f"the summary could not be written: {final.problem}")

    log_to(config.directory / "sidecar.log")
    try:
        asyncio.run(Sidecar(config, listener, access).serve(finished))
    except OSError as error:
        raise CommandError(str(error), CANNOT_CREATE) from None


def _check_folder(where: str) -> None:
    folder = Path(where.removeprefix("unix://")).parent
    if not endpoint.is_tcp(where) and not folder.is_dir():
        raise CommandError(f"--listen: no such folder: {folder}", CANNOT_CREATE)

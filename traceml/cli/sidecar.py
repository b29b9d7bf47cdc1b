"""`traceml sidecar`: the sidecar on its own, for a script that something else starts."""

import argparse
import io
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceml.cli import endpoint, rundir, settings
from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.prepare import metrics_url, other_port, prepare, say, show_summary
from traceml.sidecar.access import Access
from traceml.sidecar.config import Config
from traceml.sidecar.launch import remove_endpoint

if TYPE_CHECKING:
    from traceml.sidecar.process import Final
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
    listener = listener or other_port(chosen)
    terminal = _Terminal(config, metrics_url(listener), previous, access)
    try:
        _serve(config, terminal, listener, access)
    except OSError as error:
        if previous is None and not terminal.was_ready:  # a run that never was leaves no trace
            shutil.rmtree(config.directory, ignore_errors=True)
        raise CommandError(str(error), CANNOT_CREATE) from None
    finally:
        remove_endpoint(config.endpoint)
    return 0


class _Terminal:
    """Tells the user what becomes of the sidecar."""

    def __init__(
        self, config: Config, metrics: str, previous: "Unfinished | None", access: Access
    ) -> None:
        self.was_ready = False
        self._directory = config.directory
        self._access = access
        going_on = f" goes on after {previous.steps} steps" if previous else ""
        self._run = f"run {config.run.name}{going_on}, metrics at {metrics}"

    def ready(self, where: str) -> None:
        """Say how to report there."""
        self.was_ready = True
        say(f"{self._run}, files in {self._directory}")
        if endpoint.is_tcp(where) and self._access == Access():
            say("warning: --insecure lets anybody report who reaches the port")
        shown = " --token-file TOKEN" if self._access.token else ""
        shown += " --tls-ca CA" if self._access.certificate else ""
        shown += " --tls-cert CERT --tls-key KEY" if self._access.client_authority else ""
        say(f"start the training with: env $(traceml env {where}{shown}) COMMAND")

    def finished(self, final: "Final") -> None:
        """Show the summary."""
        show_summary(final.text, final.problem, self._directory)

    def lingers(self, seconds: float) -> None:
        """Say why it is still there."""
        say(
            f"serving the last values until they are scraped, {seconds:.0f} s at the most "
            "(Ctrl-C ends it)"
        )


def _previous(logs: Path, name: str) -> "Unfinished | None":
    """The run of that name, if its sidecar was killed and this one takes its place."""
    latest = rundir.latest(logs, name)
    if latest is None or not rundir.is_own(latest):
        return None
    from traceml.sidecar.rebuild import unfinished

    return unfinished(latest)


def _serve(config: Config, front: _Terminal, listener: socket.socket, access: Access) -> None:
    import asyncio

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print where we explain
    from traceml.sidecar.logs import log_to, open_log
    from traceml.sidecar.process import Sidecar

    with io.TextIOWrapper(open_log(config.directory), "utf-8", write_through=True) as log:
        log_to(log)
        asyncio.run(Sidecar(config, listener, access).serve(front))


def _check_folder(where: str) -> None:
    folder = Path(where.removeprefix("unix://")).parent
    if not endpoint.is_tcp(where) and not folder.is_dir():
        raise CommandError(f"--listen: no such folder: {folder}", CANNOT_CREATE)

"""What a run needs before anything is started: its name, folder, port and socket."""

import socket
import sys
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from traceml.cli import rundir
from traceml.cli.arguments import split
from traceml.cli.errors import CANNOT_CREATE, CommandError
from traceml.cli.policy import read_policy
from traceml.masking import mask_command
from traceml.printable import one_line, printable
from traceml.sidecar.config import Config, RunIdentity
from traceml.sidecar.launch import socket_endpoint
from traceml.sidecar.listen import address, bind, bind_at_once


def prepare(
    chosen: dict[str, Any],
    default_name: str,
    endpoint: str | None = None,
    node: int | None = None,
    ranks_expected: int | None = None,
    directory: Path | None = None,
) -> tuple[Config, socket.socket | None]:
    """Make the run's folder and take its port; CommandError where that can't be done.

    Somebody else may have the port: then there is none yet, and `other_port` finds one.
    Without an `endpoint` the ranks get a socket of their own, to be removed at the end.
    With a `directory` the run that is there already goes on.
    """
    name = rundir.check_name(chosen["run_name"] or default_name)
    sd_file: Path | None = chosen["sd_file"]
    if sd_file is not None and sd_file.is_dir():
        raise CommandError(f"--sd-file: {sd_file} is a folder", CANNOT_CREATE)
    if sd_file is not None and not sd_file.absolute().parent.is_dir():
        raise CommandError(f"--sd-file: no such folder: {sd_file.parent}", CANNOT_CREATE)
    textfiles: Path | None = chosen["textfile_dir"]
    if textfiles is not None and not textfiles.is_dir():
        raise CommandError(f"--textfile-dir: no such folder: {textfiles}", CANNOT_CREATE)
    policy = read_policy(chosen["policy"])
    with ExitStack() as undo:  # a port that was taken for nothing is given back
        listener = _wanted_port(chosen["metrics_host"], chosen["metrics_port"])
        if listener is not None:
            undo.enter_context(listener)
        directory = directory or rundir.create(chosen["logs_dir"].absolute(), name, node)
        run = RunIdentity(
            name=directory.name if node is None else name,
            id=uuid.uuid4().hex,
            command=_command(chosen),
            started_at=time.time(),
            ranks_expected=ranks_expected,
        )
        config = Config(
            run=run,
            directory=directory,
            endpoint=endpoint or _socket(),
            interval_seconds=chosen["interval"],
            sd_file=sd_file and sd_file.absolute(),
            textfile_dir=textfiles and textfiles.absolute(),
            linger_seconds=chosen["linger"],
            journal_max_bytes=chosen["journal_max_mb"] * 2**20,
            policy=policy,
            otlp_endpoint=chosen["otlp_endpoint"],
            rank_metrics=not chosen["no_rank_metrics"],
        )
        undo.pop_all()
    return config, listener


def _command(chosen: dict[str, Any]) -> tuple[str, ...]:
    """How the run was started, as it may be kept and passed on: no secrets are in it."""
    own, _ = split(sys.argv)
    return mask_command(own if chosen.get("no_command") else sys.argv)


def metrics_url(listener: socket.socket) -> str:
    """Where the metrics are."""
    host, port = listener.getsockname()[:2]
    return f"http://{address(host, port)}/metrics"


def _socket() -> str:
    try:
        return socket_endpoint()
    except OSError as error:
        raise CommandError(f"no place for a socket: {error.strerror}", CANNOT_CREATE) from error


def say(message: str) -> None:
    """A line of TraceML's own; standard output belongs to the script."""
    _show(f"traceml: {one_line(message)}")


def show_summary(text: str, problem: str, directory: Path) -> None:
    """The end of a run: its summary, and where it is or why it is not there."""
    _show(f"\n{text}")
    if problem:
        say(f"the summary could not be written: {problem}")
    else:
        _show(f"Summary in {directory / 'final_summary.json'}")


def _show(text: str) -> None:
    """Print to standard error, if there is one and somebody reads it."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(text), file=sys.stderr, flush=True)


def _wanted_port(host: str, port: int) -> socket.socket | None:
    try:
        return bind_at_once(host, port)
    except OSError as error:
        where = address(host, port)
        raise CommandError(
            f"cannot serve metrics at {where}: {error.strerror or error}", CANNOT_CREATE
        ) from None


def other_port(chosen: dict[str, Any]) -> socket.socket:
    """The next port that can be had where somebody has the one that was wanted."""
    host, port = chosen["metrics_host"], chosen["metrics_port"]
    try:
        return bind(host, port)
    except OSError:
        return bind(host, 0)

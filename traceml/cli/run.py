"""`traceml run`: a training script with a sidecar beside it."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from traceml import isolated
from traceml.cli import rundir, settings
from traceml.cli.errors import NO_INPUT, CommandError
from traceml.cli.prepare import metrics_url, other_port, prepare, say, show_summary
from traceml.cli.script import run_script, signals_held
from traceml.rank import inject
from traceml.sidecar.config import Config, Ending
from traceml.sidecar.launch import SidecarProcess, Told, remove_endpoint
from traceml.sidecar.listen import bind
from traceml.wire import ENDPOINT_VARIABLE

_EXAMPLES = """\
examples:
  traceml run train.py
  traceml run train.py --nproc-per-node=2
  traceml run train.py --run-name baseline --args --lr 0.1 --epochs 2
  traceml run --nproc-per-node=4 train.py -- --lr 0.1
  traceml run -m package.module

Arguments of the script stand behind `--` or `--args`. One process runs as plain
python, several through torch.distributed.run, whose flags named above are its own.
"""

# torchrun's flags that are handed on as they are.
_TORCHRUN = {
    "--nnodes": "number of nodes, or MIN:MAX",
    "--node-rank": "rank of this node",
    "--rdzv-backend": "rendezvous backend",
    "--rdzv-endpoint": "rendezvous endpoint, HOST:PORT",
    "--rdzv-id": "rendezvous id; also names the run",
    "--rdzv-conf": "rendezvous settings, KEY=VALUE,...",
    "--master-addr": "address of node 0, for the static rendezvous",
    "--master-port": "port on node 0, for the static rendezvous",
    "--max-restarts": "how often failed workers are started again",
}

_RENDEZVOUS = ("--nnodes", "--node-rank", "--rdzv", "--master")


def add_parser(commands: Any) -> None:
    """Add `run` to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a training script with a sidecar beside it",
        usage="traceml run [FLAGS] SCRIPT [FLAGS] [-- SCRIPT ARGS]",
        description="Run a training script, serve its metrics, and summarize it at the end.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="the script to run")
    parser.add_argument("-m", "--module", metavar="MODULE", help="run a module instead")
    settings.add_flags(parser, settings.FOR_RUN)
    torchrun = parser.add_argument_group("several processes, as torchrun takes them")
    torchrun.add_argument(
        "--nproc-per-node", "--nproc_per_node", metavar="N", type=_processes,
        help="processes on this node: a number, or auto, cpu, gpu",
    )  # fmt: skip
    for flag, text in _TORCHRUN.items():
        spelled = [flag] if flag.count("-") == 2 else [flag, "--" + flag[2:].replace("-", "_")]
        torchrun.add_argument(*spelled, metavar="X", help=text)
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Run the script under TraceML; returns its exit code."""
    chosen = settings.resolve(parsed, settings.FOR_RUN)
    command = _command(parsed)
    if chosen["disable_traceml"]:
        sys.stdout.flush()
        os.execvpe(command[0], command, {**os.environ, **_torchrun_s_own(parsed)})
    default_name = rundir.default_name(parsed.module or parsed.script, parsed.rdzv_id)
    config, listener = prepare(
        chosen, default_name, node=_node(parsed), ranks_expected=_expected(parsed)
    )
    environment = {**os.environ, **_torchrun_s_own(parsed), ENDPOINT_VARIABLE: config.endpoint}
    with signals_held() as mask:
        beside = _Beside(config, chosen, listener)
        exit_code = run_script(command, inject.environment(environment), mask, beside.tend)
        beside.finish(exit_code)
    remove_endpoint(config.endpoint)
    return exit_code


class _Beside:
    """The sidecar beside a script, which never waits for it."""

    def __init__(
        self, config: Config, chosen: dict[str, Any], listener: socket.socket | None
    ) -> None:
        self._config = config
        self._chosen = chosen
        self._sidecar = None if listener is None else self._start(listener)

    def tend(self) -> float | None:
        """Keep it alive; returns how soon to look again."""
        if self._sidecar is None:
            self._sidecar = self._start(other_port(self._chosen))
        again, notice = self._sidecar.tend()
        if notice:
            say(notice)
        return again

    def finish(self, exit_code: int) -> None:
        """Have the summary written and shown."""
        sidecar = self._sidecar
        assert sidecar is not None, "it was tended once at the least"
        try:
            _finish(sidecar, exit_code)
        except Exception as error:  # the script's exit code is what the user gets, whatever we do
            say(f"no summary could be made: {error!r}")
        sidecar.leave(wait=self._chosen["wait"])

    def _start(self, listener: socket.socket) -> SidecarProcess:
        sidecar = SidecarProcess(self._config, listener)
        url, files = metrics_url(listener), self._config.directory
        say(f"run {self._config.run.name}, metrics at {url}, files in {files}")
        return sidecar


def _finish(sidecar: SidecarProcess, exit_code: int) -> None:
    state = {0: "completed", 130: "interrupted", 143: "interrupted"}.get(exit_code, "failed")
    ending = Ending(state, exit_code)
    told = sidecar.finish(ending) or _conclude(sidecar.config, ending)
    show_summary(told.text, told.problem, sidecar.config.directory)


def _conclude(config: Config, ending: Ending) -> Told:
    """Do what the sidecar no longer can."""
    from traceml.report.summary import summarized
    from traceml.report.text import summary_text
    from traceml.report.writing import write_summary
    from traceml.sidecar.rebuild import conclude

    snapshot = conclude(config, ending)
    text = summary_text(summarized(snapshot))
    try:
        write_summary(snapshot, config.directory)
    except OSError as error:
        return Told(text, str(error))
    return Told(text, "")


def _command(parsed: argparse.Namespace) -> list[str]:
    target = _target(parsed)
    if _is_single(parsed):
        return [sys.executable, *target, *parsed.script_args]
    flags = {"--nproc-per-node": parsed.nproc_per_node or "1"}
    for flag in _TORCHRUN:
        flags[flag] = getattr(parsed, flag[2:].replace("-", "_"))
    given = [f"{flag}={value}" for flag, value in flags.items() if value is not None]
    if not any(flag.startswith(_RENDEZVOUS) for flag in given):
        given.append("--standalone")  # a port of its own, so that two runs never meet
    return [*isolated.command("traceml.rank.elastic"), *given, *target, *parsed.script_args]


def _torchrun_s_own(parsed: argparse.Namespace) -> dict[str, str]:
    """What a script that asked for one process of torchrun's finds in its environment."""
    if parsed.nproc_per_node is None or not _is_single(parsed):
        return {}
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    alone = {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"}
    alone |= {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    return {**alone, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _target(parsed: argparse.Namespace) -> Sequence[str]:
    if parsed.module and parsed.script:
        raise CommandError("give a script or -m MODULE, not both (script arguments go behind --)")
    if parsed.module:
        return ("-m", parsed.module)
    if not parsed.script:
        raise CommandError("which script? (see traceml run --help)")
    _check_script(Path(parsed.script))
    return (parsed.script,)


def _check_script(script: Path) -> None:
    try:
        with script.open("rb"):
            return
    except FileNotFoundError:
        raise CommandError(f"no such script: {script}", NO_INPUT) from None
    except OSError as error:
        raise CommandError(f"cannot read {script}: {error.strerror}", NO_INPUT) from None


def _processes(value: str) -> str:
    if value in ("auto", "cpu", "gpu") or (value.isdecimal() and int(value) > 0):
        return value
    raise argparse.ArgumentTypeError(f"{value!r} must be a number of processes, auto, cpu or gpu")


def _is_single(parsed: argparse.Namespace) -> bool:
    several_nodes = parsed.nnodes not in (None, "1", "1:1")
    return parsed.nproc_per_node in (None, "1") and not several_nodes


def _expected(parsed: argparse.Namespace) -> int | None:
    given = parsed.nproc_per_node or "1"
    return int(given) if given.isdecimal() else None


def _node(parsed: argparse.Namespace) -> int | None:
    """Which node's folder to write to; None on a single node."""
    if parsed.nnodes in (None, "1", "1:1"):
        return None
    rank = parsed.node_rank or os.environ.get("SLURM_NODEID") or "0"
    return int(rank) if rank.isdecimal() else 0

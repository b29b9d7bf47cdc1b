"""The command `traceml`, and the one place that turns errors into messages and exit codes."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from traceml import __version__
from traceml.cli import compare, env, export, listing, policy, rules, run, sidecar, summarize
from traceml.cli.arguments import split
from traceml.cli.errors import BROKEN_PIPE, CANNOT_CREATE, USAGE, CommandError
from traceml.cli.prepare import say

_EPILOG = """\
exit codes:
  `traceml run` ends with the script's own exit code, 128 + N if signal N ended it.
  TraceML's own errors: 2 wrong usage, or a run or summary that can't be read, 66 script
  not found or unreadable, 73 a file, folder or port that can't be had, 78 bad configuration.
  `traceml compare` has its own, for CI: see traceml compare --help.
"""


class _Parser(argparse.ArgumentParser):
    """Says what was wrong in one line, and where help is."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit code."""
    _occupy_standard_descriptors()
    try:
        own, script_args = split(sys.argv[1:] if argv is None else argv)
        parsed, unknown = _parser().parse_known_args(own)
        if unknown:
            raise CommandError(_unknown(unknown, own[0]))
        parsed.script_args = script_args
        exit_code = int(parsed.execute(parsed))
        sys.stdout.flush()
    except CommandError as error:
        say(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:  # whoever reads our output has seen enough
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is not None:  # none of ours should get here
            raise
        _drop_output()
        say(f"error: cannot write to standard output: {error.strerror}")
        return CANNOT_CREATE
    return exit_code


def _drop_output() -> None:
    """What is still to be written would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unknown(arguments: Sequence[str], command: str) -> str:
    hint = "the script's own arguments go behind `--`; " if command == "run" else ""
    return f"unrecognized arguments: {' '.join(arguments)} ({hint}see traceml {command} --help)"


def _occupy_standard_descriptors() -> None:
    """Where 0, 1 or 2 is closed, the next file would become the script's output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(descriptor)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="traceml",
        description="Why is this PyTorch training slow, and which rank and phase is to blame?",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"traceml {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    parser.set_defaults(execute=lambda _: _show_help(parser))
    run.add_parser(commands)
    sidecar.add_parser(commands)
    env.add_parser(commands)
    summarize.add_parser(commands)
    listing.add_parser(commands)
    export.add_parser(commands)
    compare.add_parser(commands)
    policy.add_parser(commands)
    rules.add_parser(commands)
    return parser


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return USAGE

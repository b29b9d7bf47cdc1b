"""`traceml env`: what brings TraceML into a script that something else starts."""

import argparse
import os
from pathlib import Path
from typing import Any

from traceml.cli import endpoint
from traceml.cli.errors import CommandError
from traceml.rank import inject
from traceml.wire import (
    ENDPOINT_VARIABLE,
    TLS_CA_VARIABLE,
    TLS_CERT_VARIABLE,
    TLS_KEY_VARIABLE,
    TOKEN_FILE_VARIABLE,
)

_EPILOG = """\
examples:
  env $(traceml env unix:///run/traceml/job42.sock) torchrun --nproc-per-node=8 train.py
  env $(traceml env tcp://sidecar:9465 --token-file /secrets/token) python train.py
"""

_FILES = {
    "token_file": (TOKEN_FILE_VARIABLE, "the token that the sidecar asks for"),
    "tls_ca": (TLS_CA_VARIABLE, "who has signed the sidecar's certificate, PEM"),
    "tls_cert": (TLS_CERT_VARIABLE, "the ranks' own certificate, PEM"),
    "tls_key": (TLS_KEY_VARIABLE, "the key of that certificate, PEM"),
}


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
        "endpoint",
        metavar="ADDRESS",
        help="where the sidecar listens: unix://PATH, tcp://HOST:PORT",
    )
    files = parser.add_argument_group("over TCP, files that the ranks can read")
    for name, (_, text) in _FILES.items():
        files.add_argument("--" + name.replace("_", "-"), metavar="FILE", type=Path, help=text)
    parser.set_defaults(execute=execute)


def execute(parsed: argparse.Namespace) -> int:
    """Print them, one a line."""
    endpoint.check(parsed.endpoint)
    variables = {**inject.environment(os.environ), ENDPOINT_VARIABLE: parsed.endpoint}
    shown = [ENDPOINT_VARIABLE, inject.VARIABLE]
    for name, (variable, _) in _FILES.items():
        file: Path | None = getattr(parsed, name)
        if file is None:
            continue
        if not endpoint.is_tcp(parsed.endpoint):
            raise CommandError("--token-file and --tls-... are for tcp://HOST:PORT")
        variables[variable] = str(file.absolute())
        shown.append(variable)
    if bool(parsed.tls_cert) != bool(parsed.tls_key):
        raise CommandError("--tls-cert and --tls-key belong together")
    for name in shown:
        print(f"{name}={variables[name]}")
    return 0

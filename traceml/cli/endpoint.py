"""Where ranks report, as users write it: unix:///path or tcp://host:port, and who may."""

import os
import re
from pathlib import Path
from typing import Any

from traceml.cli.errors import CANNOT_CREATE, NO_INPUT, CommandError
from traceml.sidecar.access import Access

_LONGEST_SOCKET_PATH = 107  # what fits into the system's sockaddr_un
_TCP = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")

NOT_SECURE = (
    "tcp:// needs --token-file, or --tls-cert, --tls-key and --tls-client-ca; "
    "--insecure does without"
)


def is_tcp(endpoint: str) -> bool:
    """Whether it is an address of the network's."""
    return endpoint.startswith("tcp://")


def check(endpoint: str, prefix: str = "") -> None:
    """CommandError for an endpoint that can't be one."""
    if is_tcp(endpoint):
        match = _TCP.fullmatch(endpoint)
        if match is None or int(match[2]) > 65_535:
            raise CommandError(f"{prefix}{endpoint!r} must be tcp://HOST:PORT")
        return
    if not endpoint.startswith("unix:///"):
        raise CommandError(
            f"{prefix}{endpoint!r} must be unix:// and an absolute path, or tcp://HOST:PORT"
        )
    if len(os.fsencode(endpoint.removeprefix("unix://"))) > _LONGEST_SOCKET_PATH:
        raise CommandError(
            f"{prefix}the path is longer than {_LONGEST_SOCKET_PATH} bytes", CANNOT_CREATE
        )


def access(chosen: dict[str, Any]) -> Access:
    """Who may report at the endpoint that was chosen; CommandError if that is everybody."""
    if bool(chosen["tls_cert"]) != bool(chosen["tls_key"]):
        raise CommandError("--tls-cert and --tls-key belong together")
    if chosen["tls_client_ca"] and not chosen["tls_cert"]:
        raise CommandError("--tls-client-ca needs --tls-cert and --tls-key")
    given = Access(
        token=_token(chosen["token_file"]),
        key=_read("--tls-key", chosen["tls_key"]),
        certificate=_read("--tls-cert", chosen["tls_cert"]),
        client_authority=_read("--tls-client-ca", chosen["tls_client_ca"]),
    )
    if not is_tcp(chosen["listen"] or ""):
        if given != Access():
            raise CommandError("--token-file and --tls-... are for --listen tcp://HOST:PORT")
    elif not (given.token or given.client_authority or chosen["insecure"]):
        raise CommandError(NOT_SECURE)
    return given


def _token(file: Path | None) -> str:
    token = _read("--token-file", file).decode(errors="replace").strip()
    if file is not None and not (token and token.isascii() and token.isprintable()):
        raise CommandError(f"--token-file: {file} must hold one line of plain text", NO_INPUT)
    return token


def _read(flag: str, file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandError(f"{flag}: cannot read {file}: {error.strerror}", NO_INPUT) from None

"""The name of a run and the folder of its files."""

import os
import re
import time
from pathlib import Path

from traceml.cli.errors import CANNOT_CREATE, CommandError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(name: str) -> str:
    """The name itself, if it can name a folder and a label."""
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"bad run name {name!r}: use letters, digits, '.', '_', '-', "
            "beginning with a letter or digit, at most 100"
        )
    return name


def default_name(target: str, rendezvous_id: str | None) -> str:
    """What all nodes of a job agree on, else the script's or module's name and the time."""
    shared = rendezvous_id or os.environ.get("SLURM_JOB_ID")
    if shared:
        return shared
    stem = Path(target).name.removesuffix(".py")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_") or "run"
    return f"{stem[:60]}-{time.strftime('%Y%m%d-%H%M%S')}"


def create(logs: Path, name: str, node: int | None) -> Path:
    """Make the folder of a run: its own on a single node, one per node on several.

    An existing run is never written over: the new one gets a number.
    """
    try:
        if node is not None:
            folder = logs / name / f"node-{node}"
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        logs.mkdir(parents=True, exist_ok=True)
        return _first_free(logs, name)
    except OSError as error:
        raise CommandError(
            f"cannot write to the logs folder {logs}: {error.strerror}", CANNOT_CREATE
        ) from None


def _first_free(logs: Path, name: str) -> Path:
    number = 1
    while True:
        folder = logs / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder

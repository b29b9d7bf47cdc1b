"""The name of a run and the folder of its files."""

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from itertools import count, takewhile
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
        parent, folder = (logs, name) if node is None else (logs / name, f"node-{node}")
        parent.mkdir(parents=True, exist_ok=True)
        return _first_free(parent, folder)
    except OSError as error:
        raise CommandError(
            f"cannot write to the logs folder {logs}: {error.strerror}", CANNOT_CREATE
        ) from None


def is_folder(path: Path) -> bool:
    """Whether it is one; a name that none can have is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def latest(logs: Path, name: str) -> Path | None:
    """The last folder that was made for a run of that name."""
    existing = deque(takewhile(Path.is_dir, _candidates(logs, name)), maxlen=1)
    return existing[0] if existing else None


def _first_free(logs: Path, name: str) -> Path:
    for folder in _candidates(logs, name):
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise AssertionError("unreachable: there are always more candidates")


def _candidates(logs: Path, name: str) -> Iterator[Path]:
    yield logs / name
    for number in count(2):
        yield logs / f"{name}-{number}"

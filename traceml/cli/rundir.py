"""The name of a run and the folder of its files."""

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

from traceml.cli.errors import CANNOT_CREATE, UNREADABLE, CommandError
from traceml.files import Folder, opened

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
        logs.mkdir(parents=True, exist_ok=True)
        with Folder.at(logs) as folder:
            if node is None:
                return _first_free(folder, name)
            with folder.inside(name, make=True) as job:
                return _first_free(job, f"node-{node}")
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


def named(path: Path) -> Folder:
    """The folder that the user names, opened; CommandError if there is none."""
    try:
        return Folder.at(path)
    except PermissionError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", UNREADABLE) from None
    except (OSError, ValueError):  # a name too long, or with a zero byte in it
        raise CommandError(f"no such folder: {path}", UNREADABLE) from None


def is_own(path: Path) -> bool:
    """Whether a run's folder is this user's: no link to another, and nobody else's."""
    try:
        with opened(path) as folder:
            return folder.is_own
    except OSError:
        return False


def latest(logs: Path, name: str) -> Path | None:
    """The last folder that was made for a run of that name."""
    candidates = (logs / candidate for candidate in _candidates(name))
    existing = deque(takewhile(Path.is_dir, candidates), maxlen=1)
    return existing[0] if existing else None


def _first_free(folder: Folder, name: str) -> Path:
    for candidate in _candidates(name):
        try:
            os.mkdir(candidate, dir_fd=folder.descriptor)
        except FileExistsError:
            continue
        return folder.path / candidate
    raise AssertionError("unreachable: there are always more candidates")


def _candidates(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        yield f"{name}-{number}"

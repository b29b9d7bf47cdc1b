"""The final state of a run for node_exporter's textfile collector."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from traceml.files import write_atomically
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form, Writer
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot

KEPT_SECONDS = 24 * 3600  # an ended run is no longer news


def write_textfile(
    snapshot: Snapshot, folder: Path, catalogue: Sequence[Metric] = CATALOGUE
) -> None:
    """Write `traceml-<run>.prom` there, and take away those of runs that ended a day ago."""
    _forget_old(folder)
    body = Writer(catalogue).write(snapshot, Form.CLASSIC)
    file = folder / f"traceml-{snapshot.run.name}.prom"
    write_atomically(file, body.decode())
    file.chmod(0o644)  # node_exporter runs as another user


def _forget_old(folder: Path) -> None:
    for file in folder.glob("traceml-*.prom"):
        with suppress(OSError):  # another user's, or gone already
            if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                file.unlink()

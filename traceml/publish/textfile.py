"""The final state of a run for node_exporter's textfile collector."""

import fnmatch
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from traceml.files import Folder, write_in
from traceml.publish.catalogue import CATALOGUE
from traceml.publish.exposition import Form, Writer
from traceml.publish.metric import Metric
from traceml.snapshot import Snapshot

KEPT_SECONDS = 24 * 3600  # an ended run is no longer news


def write_textfile(
    snapshot: Snapshot, folder: Path, catalogue: Sequence[Metric] = CATALOGUE
) -> None:
    """Write `traceml-<run>.prom` there, and take away those of runs that ended a day ago."""
    body = Writer(catalogue).write(snapshot, Form.CLASSIC)
    with Folder.at(folder) as held:
        with suppress(OSError):  # a folder that may be written to, and not be listed
            _forget_old(held)
        # node_exporter runs as another user
        write_in(held, f"traceml-{snapshot.run.name}.prom", body, 0o644)


def _forget_old(folder: Folder) -> None:
    for name in fnmatch.filter(folder.names(), "traceml-*.prom"):
        found = folder.look(name)
        if found is not None and time.time() - found.st_mtime > KEPT_SECONDS:
            with suppress(OSError):  # another user's, or gone already
                folder.remove(name)

"""A run that announces itself to Prometheus, by a file for its `file_sd_configs`."""

import json
import logging
import socket
from pathlib import Path

from traceml.files import is_shortage, read_named, write_atomically
from traceml.sidecar.listen import address

log = logging.getLogger(__name__)

_MAX_BYTES = 2**20


class Discovery:
    """Writes the target when the run begins, and takes it away when it ends."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._written = ""
        self._is_published = False

    def publish(self, host: str, port: int) -> bool:
        """Announce the run; False if the file can't be written, which may be tried again."""
        if self._file is None or self._is_published:
            return True
        is_first = not self._written
        reachable = socket.gethostname() if host in ("0.0.0.0", "::") else host
        targets = [{"targets": [address(reachable, port)], "labels": {}}]
        self._written = json.dumps(targets, indent=2) + "\n"
        try:
            write_atomically(self._file, self._written, 0o644)  # Prometheus is another user
        except OSError as error:
            if is_first:
                log.warning("cannot announce the run in %s: %s", self._file, error)
            return False
        self._is_published = True
        return True

    def withdraw(self) -> None:
        """Take the file away, unless another run has written its own there since.

        An OSError means that no descriptor is left to look at it: it is still there.
        """
        try:
            if self._file is not None and self._is_ours(self._file):
                self._file.unlink()
        except OSError as error:
            if is_shortage(error):
                raise
            log.warning("cannot withdraw %s: %s", self._file, error)

    def _is_ours(self, file: Path) -> bool:
        return read_named(file, _MAX_BYTES) == self._written.encode()

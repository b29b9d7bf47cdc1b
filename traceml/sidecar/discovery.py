"""A run that announces itself to Prometheus, by a file for its `file_sd_configs`."""

import json
import logging
import socket
from pathlib import Path

from traceml.files import write_atomically
from traceml.sidecar.listen import address

log = logging.getLogger(__name__)


class Discovery:
    """Writes the target when the run begins, and takes it away when it ends."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._written = ""

    def publish(self, host: str, port: int) -> None:
        """Announce the run; a file that can't be written costs the announcement only."""
        if self._file is None:
            return
        reachable = socket.gethostname() if host in ("0.0.0.0", "::") else host
        targets = [{"targets": [address(reachable, port)], "labels": {}}]
        self._written = json.dumps(targets, indent=2) + "\n"
        try:
            write_atomically(self._file, self._written)
            self._file.chmod(0o644)  # Prometheus runs as another user
        except OSError as error:
            log.warning("cannot announce the run in %s: %s", self._file, error)

    def withdraw(self) -> None:
        """Take the file away, unless another run has written its own there since."""
        try:
            if self._file is not None and self._file.read_text() == self._written:
                self._file.unlink()
        except OSError as error:
            log.warning("cannot withdraw %s: %s", self._file, error)

"""Writing files so that no reader ever sees half of one."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` in one go."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)  # no half of it stays on a full disk
        raise

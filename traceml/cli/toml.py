"""Files in TOML, with errors that say which file it was."""

import sys
from pathlib import Path
from typing import Any

from traceml.cli.errors import BAD_CONFIG, CommandError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(file: Path) -> dict[str, Any]:
    """What the file holds; CommandError if it can't be read or is no TOML."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{file.name}: {error.strerror}", BAD_CONFIG) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{file.name}: is no TOML: {error}", BAD_CONFIG) from None

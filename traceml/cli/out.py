"""What a command prints on standard output, whatever that can show."""

import sys


def out(text: str) -> None:
    """Write it; a character that the terminal's encoding lacks does not cost the rest."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))

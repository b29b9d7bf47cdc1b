"""What a command prints on standard output, whatever that can show."""

import sys

from traceml.printable import printable


def out(text: str) -> None:
    """Write it, fit to be shown; a character that the encoding lacks does not cost the rest."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(printable(text).encode(encoding, "replace").decode(encoding))

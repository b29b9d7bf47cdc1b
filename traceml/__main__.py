"""`python -m traceml` is the command `traceml`."""

import sys

from traceml.cli import main

sys.exit(main())

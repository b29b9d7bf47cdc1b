"""`traceml` on a machine whose clock is set: it is off by as many seconds as a file says."""

import sys
import time
from pathlib import Path

OFF_BY = Path(sys.argv.pop(1))
true_time = time.time
time.time = lambda: true_time() + float(OFF_BY.read_text())

from traceml.cli import main  # noqa: E402 (what it imports asks for the time)

sys.exit(main())

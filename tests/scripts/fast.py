"""Steps far below a millisecond: a bare scope, as fast as Python goes."""

import sys

from traceml import trace_step

for _ in range(int(sys.argv[1])):
    with trace_step():
        pass

"""A training that starts another program which is traced as well."""

import subprocess
import sys

from traceml import trace_step

for step in range(30):
    with trace_step():
        if step == 10 and len(sys.argv) == 1:
            subprocess.run([sys.executable, __file__, "child"], check=True)

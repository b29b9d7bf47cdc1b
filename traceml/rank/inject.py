"""How TraceML comes into a script that knows nothing of it.

`traceml run` puts the folder `injected` on PYTHONPATH; Python imports the
`sitecustomize` that lies there before it runs the script. That one asks to be
told when torch has been imported, and hands over to the user's own.
"""

import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = str(Path(__file__).parent / "injected")
VARIABLE = "PYTHONPATH"


def environment(of: Mapping[str, str]) -> dict[str, str]:
    """This environment, so that Python started in it is injected."""
    before = of.get(VARIABLE)
    return {**of, VARIABLE: FOLDER if not before else f"{FOLDER}{os.pathsep}{before}"}


def leave_environment() -> None:
    """What this process starts from now on is not injected."""
    entries = os.environ.get(VARIABLE, "").split(os.pathsep)
    if FOLDER not in entries:
        return
    entries.remove(FOLDER)
    if entries:
        os.environ[VARIABLE] = os.pathsep.join(entries)
    else:
        del os.environ[VARIABLE]

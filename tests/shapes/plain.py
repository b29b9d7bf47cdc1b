"""Scripts without TraceML, one after the other, from a process that has torch already.

    python -m tests.shapes.plain FOLDER < runs.json

To import torch takes longer than most of them. Each run becomes a file in the
folder, named like the run: its exit code in the first line, then what it printed.
"""

import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch._dynamo  # noqa: F401 - what making an optimizer imports

HANGS_AFTER_SECONDS = 30.0
"""Ranks that meet at a port may miss each other, without TraceML too: they are tried once more."""


def main() -> None:
    folder = Path(sys.argv[1])
    for name, script, environment in json.load(sys.stdin):
        output = folder / f"{name}.part"
        for _ in range(2):
            child = os.fork()
            if child == 0:
                become(script, environment, output)
                return  # as a script ends
            code = exit_code(child)
            if code is not None:
                break
        printed = output.read_text(encoding="utf-8")
        output.write_text(f"{code}\n{printed}", encoding="utf-8")
        output.rename(folder / name)


def exit_code(child: int) -> int | None:
    """How the child ended, or None if it had to be killed, with all that it started."""
    deadline = time.monotonic() + HANGS_AFTER_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def become(script: str, environment: Mapping[str, str], output: Path) -> None:
    """Run the script in this process, as Python would."""
    os.setpgid(0, 0)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.environ.update(environment)
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

"""Scripts without TraceML, one after the other, from a process that has torch already.

    python -m tests.shapes.plain FOLDER < runs.json

To import torch takes longer than most of them. Each run becomes a file in the
folder, named like the run: its exit code in the first line, then what it printed.
"""

import json
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

import torch._dynamo  # noqa: F401 - what making an optimizer imports


def main() -> None:
    folder = Path(sys.argv[1])
    for name, script, environment in json.load(sys.stdin):
        output = folder / f"{name}.part"
        child = os.fork()
        if child == 0:
            become(script, environment, output)
            return  # as a script ends
        _, status = os.waitpid(child, 0)
        printed = output.read_text(encoding="utf-8")
        output.write_text(f"{os.waitstatus_to_exitcode(status)}\n{printed}", encoding="utf-8")
        output.rename(folder / name)


def become(script: str, environment: Mapping[str, str], output: Path) -> None:
    """Run the script in this process, as Python would."""
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
    os.environ.update(environment)
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

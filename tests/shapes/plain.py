"""Scripts without TraceML, one after the other, from a process that has torch already.

    python -m tests.shapes.plain FOLDER < runs.json

To import torch takes longer than most of them. A run is a name, a script, and
the environment of each of its processes. It becomes a file in the folder, named
like the run: the exit codes in the first line, then what all of them printed.
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
    for name, script, environments in json.load(sys.stdin):
        outputs = [folder / f"{name}.{rank}" for rank in range(len(environments))]
        children = []
        for environment, output in zip(environments, outputs, strict=True):
            child = os.fork()
            if child == 0:
                become(script, environment, output)
                return  # as a script ends
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        printed = "".join(output.read_text(encoding="utf-8") for output in outputs)
        whole = folder / f"{name}.whole"
        whole.write_text(f"{codes}\n{printed}", encoding="utf-8")
        whole.rename(folder / name)


def become(script: str, environment: Mapping[str, str], output: Path) -> None:
    """Run the script in this process, as Python would."""
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
    os.environ.update(environment)
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

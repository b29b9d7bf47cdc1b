"""`python -m tests.fuzz [--seconds N] [TARGET ...]`: each target in turn, for its share of N."""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS

FOLDER = Path(".fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=600, help="for all of them (default: 600)")
    parsed = parser.parse_args()
    names = parsed.targets or list(TARGETS)
    FOLDER.mkdir(exist_ok=True)
    found = [name for name in names if _fails(name, max(parsed.seconds // len(names), 1))]
    if found:
        print(f"found something: {', '.join(found)}; see {FOLDER}/, and tests/fuzz/findings")
    return 1 if found else 0


def _fails(name: str, seconds: int) -> bool:
    print(f"== {name}, {seconds} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz.fuzzing", name, str(FOLDER), str(seconds)]
    return subprocess.run(command, check=False).returncode != 0


if __name__ == "__main__":
    sys.exit(main())

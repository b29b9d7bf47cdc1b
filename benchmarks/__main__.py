"""`python -m benchmarks [NAME ...] [--quick]`: tables in markdown on standard output."""

import argparse
import sys
from collections.abc import Callable, Iterator

from benchmarks import peer, sidecar, step
from benchmarks.machine import describe, load
from benchmarks.report import Table, progress

BENCHMARKS: dict[str, Callable[[bool], Iterator[Table]]] = {
    "step": step.tables,
    "peer": peer.tables,
    "sidecar": sidecar.tables,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="short runs: to see that it works")
    parsed = parser.parse_args()
    unknown = sorted(set(parsed.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    run(parsed.names or list(BENCHMARKS), parsed.quick)
    return 0


def run(names: list[str], quick: bool) -> None:
    print(describe().markdown(), flush=True)
    for name in names:
        before = load()
        for table in BENCHMARKS[name](quick):
            print(table.markdown(), flush=True)
        progress(f"{name}: done; load average was {before}, is {load()}")


if __name__ == "__main__":
    sys.exit(main())

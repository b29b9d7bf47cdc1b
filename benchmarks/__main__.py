"""`python -m benchmarks [NAME ...] [--quick]`: tables in markdown on standard output."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import compare, device, job, otlp, peer, sidecar, step
from benchmarks.accuracy import beside
from benchmarks.accuracy import command as accuracy
from benchmarks.machine import describe, load
from benchmarks.report import Table, progress

COSTS: dict[str, Callable[[bool], Iterator[Table]]] = {
    "step": step.tables,
    "peer": peer.tables,
    "sidecar": sidecar.tables,
    "otlp": otlp.tables,
}
# These take long, and run only where they are named.
SIMPLE = {
    **COSTS,
    "accuracy-peer": beside.tables,
    "device": device.tables,
    "job": job.tables,
}
ACCURACY, COMPARE = "accuracy", "compare"  # have options of their own
NAMES = (*SIMPLE, ACCURACY, COMPARE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="short runs: to see that it works")
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        help="of accuracy, compare: record here, and go on there",
    )
    parser.add_argument(
        "--only", metavar="REGEX", help="of accuracy, compare: runs with such a name"
    )
    group = parser.add_argument_group(ACCURACY)
    group.add_argument("--from", metavar="DIR", type=Path, dest="kept", help="judge what is kept")
    parsed = parser.parse_args()
    unknown = sorted(set(parsed.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    run(parsed.names or list(COSTS), parsed)
    return 0


def run(names: list[str], parsed: argparse.Namespace) -> None:
    print(describe().markdown(), flush=True)
    for name in names:
        before = load()
        for table in _tables(name, parsed):
            print(table.markdown(), flush=True)
        progress(f"{name}: done; load average was {before}, is {load()}")


def _tables(name: str, parsed: argparse.Namespace) -> Iterator[Table]:
    if name == ACCURACY:
        chosen = accuracy.Options(parsed.quick, parsed.only, parsed.keep, parsed.kept)
        return accuracy.tables(chosen)
    if name == COMPARE:
        return compare.tables(parsed.quick, parsed.keep, parsed.only)
    return SIMPLE[name](parsed.quick)


if __name__ == "__main__":
    sys.exit(main())

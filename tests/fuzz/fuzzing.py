"""One target under atheris, in a process of its own: too slow or too large is a finding, too."""

import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris

# What each target is about, for instrumented code is slow.
_OF_JOURNALS = ["traceml.sidecar", "traceml.wire", "traceml.files"]
_OF_SUMMARIES = ["traceml.report", "traceml.files"]
INSTRUMENTED = _OF_SUMMARIES if sys.argv[1] in ("summary", "compare") else _OF_JOURNALS

with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
    from tests.fuzz.targets import TARGETS, Target

MEMORY_BYTES = 4 * 2**30  # of addresses: an allocation beyond them fails
RESIDENT_BYTES = 2**30
SECONDS = 20  # for one input, with instrumented code


class TooLargeError(Exception):
    """An input took more memory than any run's folder should."""


def watched(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The same; fails if memory has grown too far, or if anybody was warned."""

    def watch(data: bytes) -> None:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            read(data)
        if warned:
            raise warned[0].message if isinstance(warned[0].message, Exception) else AssertionError
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if used > RESIDENT_BYTES:
            raise TooLargeError(f"{used // 2**20} MiB")

    return watch


def mutating(target: Target) -> Callable[[bytes, int, int], bytes]:
    """What atheris asks for a changed input; now and then it is libFuzzer's own idea."""

    def mutated(data: bytes, largest: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.1:
            return bytes(atheris.Mutate(data, largest))
        return target.mutate(data, random)[:largest]

    return mutated


def main(name: str, folder: Path, seconds: int) -> None:
    """Fuzz this target for so long; what is found lies in the folder."""
    target = TARGETS[name]
    corpus = folder / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    arguments = [
        sys.argv[0], str(corpus), f"-max_total_time={seconds}", f"-timeout={SECONDS}",
        f"-artifact_prefix={folder}/{name}-", "-max_len=200000", "-len_control=0",
        "-print_final_stats=1", "-verbosity=1",
    ]  # fmt: skip
    atheris.Setup(arguments, watched(target.read), custom_mutator=mutating(target))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

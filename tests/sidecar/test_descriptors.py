import asyncio
import subprocess
import sys

import pytest

from tests.descriptors import descriptors_left
from traceml.sidecar.descriptors import ENOUGH, patiently

RAISED = (
    "import resource\n"
    "from traceml.sidecar.descriptors import raise_limit\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    "raise_limit()\n"
    "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(256, 1024, 1024), (1024, 1024, 1024), (256, 16_384, ENOUGH), (10_000, 16_384, 10_000)],
)
def test_the_soft_limit_is_raised_to_what_the_hard_one_allows_and_is_enough(
    soft: int, hard: int, expected: int
) -> None:
    code = RAISED.format(soft=soft, hard=hard)
    told = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    assert told.stdout.split() == [str(expected), str(hard)]


def test_work_that_lacks_a_descriptor_is_done_when_there_is_one() -> None:
    tried = 0

    async def work() -> str:
        nonlocal tried
        tried += 1
        if tried < 3:
            with descriptors_left(0), open(__file__):  # noqa: PTH123
                pass
        return "done"

    assert asyncio.run(patiently(work)) == "done"
    assert tried == 3


def test_work_that_fails_for_another_reason_fails_at_once() -> None:
    tried = 0

    async def work() -> None:
        nonlocal tried
        tried += 1
        raise PermissionError

    with pytest.raises(PermissionError):
        asyncio.run(patiently(work))
    assert tried == 1


def test_patience_ends() -> None:
    async def work() -> None:
        with descriptors_left(0), open(__file__):  # noqa: PTH123
            pass

    with pytest.raises(OSError, match="Too many open files"):
        asyncio.run(patiently(work, seconds=0.2))

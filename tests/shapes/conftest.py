import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.launching import eventually, kill_with_descendants
from tests.shapes.shape import SCRIPTS, Shape
from traceml.sidecar.listen import bind

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def plain_output(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Shape], str]]:
    """What a shape prints without TraceML; all of them are run while the tests are."""
    folder = tmp_path_factory.mktemp("plain")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.shapes.plain", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin as runs:
        json.dump([run_of(shape) for shape in shapes_of(request.session)], runs)

    def output(shape: Shape) -> str:
        file = folder / shape.name
        eventually(lambda: file.exists() or process.poll() is not None, seconds=120)
        codes, _, printed = file.read_text(encoding="utf-8").partition("\n")
        assert set(json.loads(codes)) == {0}, printed
        return printed

    yield output
    if process.poll() is None:
        kill_with_descendants(process.pid)
    process.wait()


def shapes_of(session: pytest.Session) -> list[Shape]:
    parameters = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
    return [found for of in parameters if isinstance(found := of.get("shape"), Shape)]


def run_of(shape: Shape) -> tuple[str, str, list[dict[str, str]]]:
    environment = dict(shape.environment)
    environments = [environment]
    if shape.processes is not None:
        environments = [{**environment, **of} for of in torchrun_s(shape.processes)]
    return shape.name, str(SCRIPTS / f"{shape.script}.py"), environments


def torchrun_s(processes: int) -> list[dict[str, str]]:
    """What torchrun tells each of so many processes."""
    with bind("127.0.0.1", 0) as free:
        port = str(free.getsockname()[1])
    size = str(processes)
    world = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
